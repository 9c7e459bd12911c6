// A server on a free loopback port with a scripted model behind it, and a client that is nothing but a socket.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "model/text/json.hpp"
#include "model/text/tokenizer.hpp"
#include "model/ticket.hpp"
#include "server/server.hpp"

namespace k3::test {

// Where the model stands still until it is released or its job is cancelled.
enum class Phase { none, queued, prefill, decode };

struct Script {
  std::vector<std::int32_t> ids{};  // the output
  bool endless = false;             // over and over, until max_tokens
  Phase pause = Phase::none;
  std::size_t pause_after = 2;           // tokens, for Phase::decode
  bool pause_each = false;               // before each token from there on, after Phase::prefill too
  std::size_t reports = 1;               // on the prompt, after the first one; Phase::prefill pauses before each
  std::optional<std::size_t> fail_at{};  // after that many tokens
  Error error = fail(ErrorCode::io, "a read failed");
  DriveUse prefill{}, decode{};  // of the whole answer
};

class ScriptedModel : public Model {
 public:
  ScriptedModel();
  ~ScriptedModel() override;

  Result<void> submit(Job job, std::shared_ptr<Ticket> ticket) override;
  ModelInfo info() const override {
    return {.id = "scripted", .context_limit = context_limit, .vocabulary = 1794, .fingerprint = "fp-test"};
  }
  ModelStatus status() const override;

  void script(Script script);
  void release();  // ends the pause
  // Blocks until that many jobs have been submitted / have reached the pause / ended by cancel / run to an end.
  void wait_submitted(std::size_t count);
  void wait_paused(std::size_t count);
  void wait_cancelled(std::size_t count);
  void wait_ended(std::size_t count);
  void work_done(const WorkDone& work);  // what status() tells from now on
  Job last_job();
  std::shared_ptr<Ticket> last_ticket();
  std::vector<std::int32_t> scripted_ids();
  std::size_t steps_after_cancel() const { return steps_after_cancel_; }
  std::size_t jobs_started();

  std::size_t context_limit = 100'000;
  std::size_t queue_capacity = 4;

 private:
  struct Pending {
    Job job;
    std::shared_ptr<Ticket> ticket;
    Script script;
  };
  void run();
  void play(Pending& pending);
  bool pause(Ticket& ticket);  // false: cancelled
  void await(std::size_t& counter, std::size_t count);
  void count(std::size_t& counter);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Pending> queue_;
  WorkDone work_;
  Script script_;
  Job last_;
  std::shared_ptr<Ticket> last_ticket_;
  std::size_t submitted_ = 0, paused_ = 0, cancelled_ = 0, ended_ = 0, started_ = 0, releases_ = 0;
  std::size_t steps_after_cancel_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// What the scripted model says of a token when it is asked.
TokenLogprobs scripted_logprobs(std::int32_t id, unsigned count);

// Time that stands still until it is moved.
class TestClock {
 public:
  // For ServerOptions::clock.
  std::function<std::chrono::steady_clock::time_point()> source() const;
  void advance(server::Server& server, std::chrono::milliseconds by);

 private:
  std::shared_ptr<std::atomic<std::int64_t>> milliseconds_ = std::make_shared<std::atomic<std::int64_t>>(1'000'000);
};

struct Reply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::vector<std::string> chunks;  // of a chunked body
  bool complete = false;            // the body ended as its framing says

  json::Value json() const;
  // data: payloads, comments left out; every chunk must be one event.
  std::vector<std::string> events() const;
  std::string error_field(std::string_view name) const;  // of {"error":{...}}; "null" for null
};

class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer = 0);
  explicit Client(const std::string& unix_socket);
  ~Client();
  Client(const Client&) = delete;

  void send(std::string_view bytes);
  bool try_send(std::string_view bytes);
  Reply reply(bool head_only = false);  // reads one response
  std::string everything();             // raw bytes until the peer's end of the connection
  int head(Reply& reply);               // only its head
  std::string piece();                  // what the kernel gives at once
  std::string chunk();                  // next chunk of a chunked body; empty: the last one, or the end of the connection
  bool closed();                        // waits for the peer's end of the connection
  void close();
  void reset();  // RST instead of FIN
  void half_close();
  int descriptor() const { return descriptor_; }

 private:
  void be_patient();
  bool fill();
  std::string line();
  std::string take(std::size_t count);

  int descriptor_ = -1;
  std::string buffer_;
};

struct World {
  explicit World(server::ServerOptions options = {}, bool with_model = true);
  ~World();

  std::unique_ptr<server::Server> server;
  std::shared_ptr<ScriptedModel> model = std::make_shared<ScriptedModel>();
  std::shared_ptr<const text::Tokenizer> tokenizer;

  void give_model();
  // Returns when the server's thread has done all that it had to do before.
  void settle();
  Reply get(std::string_view path, std::string_view method = "GET");
  Reply post(std::string_view path, std::string_view body, std::string_view headers = "");
  Reply chat(std::string_view extra = "", bool stream = false);
};

std::string request(std::string_view method, std::string_view path, std::string_view body = "", std::string_view headers = "");
// A chat request whose further fields are `extra`, e.g. R"("n":1)".
std::string chat_body(std::string_view extra = "", bool stream = false);
const std::shared_ptr<const text::Tokenizer>& mini_tokenizer();
std::vector<std::int32_t> plain_output(std::string_view text);  // think closed, then `text` as the response, then the message's end

}  // namespace k3::test
