// The whole house on the small model: HTTP in, a drive that can go wrong below.
#pragma once

#include <atomic>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "model/actor.hpp"
#include "model/actor_seams.hpp"
#include "tests/catch.hpp"
#include "tests/faults/drive.hpp"
#include "tests/server/harness.hpp"
#include "tests/server/prometheus.hpp"

namespace k3::faults {

struct House {
  std::atomic<std::int64_t> clock_s{1};  // the model's clock: it moves when it is told to
  std::shared_ptr<Drive> told;
  boost::asio::io_context* model_loop = nullptr;  // where there is such a drive
  std::unique_ptr<server::Server> server;

  // `drive`: in place of the system's.
  explicit House(const std::filesystem::path& directory, std::shared_ptr<Drive> drive = nullptr) : told(drive) {
    server::ServerOptions options;
    options.port = 0;
    options.log_requests = false;
    options.ping_interval = std::chrono::milliseconds(5);
    options.limits.linger = std::chrono::milliseconds(50);
    server = server::Server::bind(options).value();
    server->start();
    ActorSeams seams;
    seams.clock = [this] { return std::chrono::steady_clock::time_point(std::chrono::seconds(clock_s)); };
    if (drive) {
      seams.open_experts = [this, drive](const checkpoint::Checkpoint& checkpoint, boost::asio::io_context& context,
                                         const experts::StreamOptions& stream) {
        model_loop = &context;
        const experts::ReaderFactory factory = [drive](const experts::ReaderSetup&) -> Result<std::unique_ptr<experts::Reader>> {
          return std::unique_ptr<experts::Reader>(std::make_unique<DriveReader>(drive));
        };
        return experts::open_stream(experts::layout_of(checkpoint), context, stream, factory);
      };
    }
    ModelOptions model;
    model.directory = directory;
    model.threads = 1;
    model.expert_gb = 0;  // one slot: what is needed is read, again and again
    auto actor = Actor::start(model, seams);
    if (actor.has_error()) FAIL(actor.error().describe());
    server->set_model(std::move(*actor), test::mini_tokenizer());
  }

  ~House() {
    if (told) told->release();  // also when a check has failed: the model ends after its reads
  }

  // With a read held back: until the job awaits it. Its thread only looks at what is posted when it has nothing left to compute.
  void wait_until_model_sleeps() const {
    std::promise<void> asleep;
    boost::asio::post(*model_loop, [&asleep] { asleep.set_value(); });
    asleep.get_future().wait();
  }

  test::Reply get(std::string_view path) const {
    test::Client client(server->port());
    client.send(test::request("GET", path));
    return client.reply();
  }
  test::Reply post(std::string_view path, std::string_view body) const {
    test::Client client(server->port());
    client.send(test::request("POST", path, body));
    return client.reply();
  }
  test::Scrape scrape() const { return test::read_metrics(get("/metrics").body); }
};

// A chat that always gets the same answer.
inline std::string question(std::string_view content, bool stream = false) {
  return R"({"temperature":0,"max_tokens":24,"messages":[{"role":"user","content":")" + std::string(content) + "\"}]" +
         (stream ? R"(,"stream":true})" : "}");
}

inline std::string content_of(const test::Reply& reply) {
  INFO(reply.body);
  REQUIRE(reply.status == 200);
  const json::Value answer = reply.json();
  const json::Value& message = *answer.find("choices")->items[0].find("message");
  const json::Value* reasoning = message.find("reasoning_content");
  return message.find("content")->text + "|" + (reasoning == nullptr ? std::string() : reasoning->text);
}

// The same of a stream that ended well.
inline std::string content_of_stream(const test::Reply& reply) {
  std::string content, reasoning;
  const auto events = reply.events();
  REQUIRE(events.back() == "[DONE]");
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const json::Value event = json::parse(events[i]).value();
    const json::Value* delta = event.find("choices")->items[0].find("delta");
    if (const json::Value* text = delta->find("content")) content += text->text;
    if (const json::Value* text = delta->find("reasoning_content")) reasoning += text->text;
  }
  return content + "|" + reasoning;
}

}  // namespace k3::faults
