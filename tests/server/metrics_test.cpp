// GET /metrics: what it tells, and that a program can read it.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.hpp"
#include "tests/server/harness.hpp"
#include "tests/server/prometheus.hpp"

using namespace k3;
using namespace k3::test;
using namespace std::chrono_literals;

namespace {

Scrape scrape(World& world) {
  const Reply reply = world.get("/metrics");
  REQUIRE(reply.status == 200);
  CHECK(reply.headers.at("content-type").starts_with("text/plain; version=0.0.4"));
  return read_metrics(reply.body);
}

// A reply can be read before the server's thread is through with the request.
template <class Condition>
Scrape scrape_until(World& world, Condition holds) {
  for (;;) {
    const Scrape now = scrape(world);
    if (holds(now)) return now;
  }
}

const std::string kChat = R"(k3_requests_total{endpoint="/v1/chat/completions",code=)";

}  // namespace

TEST_CASE("metrics are there while the model loads, with every series of the model at zero") {
  World world({}, false);
  const Scrape loading = scrape(world);
  CHECK(loading.at("k3_ready") == 0);
  CHECK(loading.at("k3_expert_read_bytes_total") == 0);
  CHECK(loading.at(R"(k3_connections{state="answering"})") == 1);
  world.give_model();
  WorkDone work;
  work.drive = {
      .expert_bytes = 1000, .trunk_bytes = 200, .expert_hits = 3, .expert_misses = 4, .expert_wait_s = 0.5, .trunk_wait_s = 1};
  work.expert_reads = 5;
  work.expert_errors = 1;
  work.expert_parked = 2;
  work.expert_reading_s = 0.25;
  work.expert_guesses = 11;
  work.expert_guesses_used = 10;
  work.predicted_choices = 13;
  work.foreseen_choices = 12;
  work.trunk_reads = 6;
  work.serial_s = 8;
  work.overlapped_s = 16;
  work.prompt_tokens = 7;
  work.cached_prompt_tokens = 9;
  work.decoded_tokens = std::uint64_t{1} << 60;
  world.model->work_done(work);
  const Scrape ready = scrape(world);
  check_no_fall(loading, ready);
  CHECK(ready.at("k3_ready") == 1);
  CHECK(ready.at("k3_expert_read_bytes_total") == 1000);
  CHECK(ready.at("k3_trunk_read_bytes_total") == 200);
  CHECK(ready.at(R"(k3_expert_lookups_total{result="hit"})") == 3);
  CHECK(ready.at(R"(k3_expert_lookups_total{result="miss"})") == 4);
  CHECK(ready.at("k3_expert_reads_total") == 5);
  CHECK(ready.at("k3_expert_read_errors_total") == 1);
  CHECK(ready.at("k3_expert_parked_total") == 2);
  CHECK(ready.at("k3_expert_read_seconds_total") == 0.25);
  CHECK(ready.at("k3_expert_guesses_total") == 11);
  CHECK(ready.at("k3_expert_guesses_used_total") == 10);
  CHECK(ready.at("k3_expert_choices_predicted_total") == 13);
  CHECK(ready.at("k3_expert_choices_foreseen_total") == 12);
  CHECK(ready.at("k3_trunk_reads_total") == 6);
  CHECK(ready.at(R"(k3_step_seconds_total{phase="serial"})") == 8);
  CHECK(ready.at(R"(k3_step_seconds_total{phase="overlapped"})") == 16);
  CHECK(ready.at(R"(k3_step_seconds_total{phase="waiting"})") == 1.5);
  CHECK(ready.at(R"(k3_drive_wait_seconds_total{what="trunk"})") == 1);
  CHECK(ready.at(R"(k3_prompt_tokens_total{source="computed"})") == 7);
  CHECK(ready.at(R"(k3_prompt_tokens_total{source="cached"})") == 9);
  CHECK(world.get("/metrics").body.find("k3_decoded_tokens_total 1152921504606846976\n") != std::string::npos);
}

TEST_CASE("an answer is counted in the stage it is in, and by how it ended") {
  World world;
  const auto in = [](const Scrape& now, std::string_view state) {
    return now.at("k3_requests_in_state{state=\"" + std::string(state) + "\"}");
  };
  std::size_t paused = 0, cancelled = 0;
  Scrape before = scrape(world);
  for (const auto& [phase, name] :
       {std::pair(Phase::queued, "queued"), std::pair(Phase::prefill, "prefill"), std::pair(Phase::decode, "decode")}) {
    for (const bool leaves : {false, true}) {
      INFO(name << (leaves ? ", the client leaves" : ""));
      world.model->script({.ids = plain_output("ok"), .pause = phase});
      Client client(world.server->port());
      client.send(request("POST", "/v1/chat/completions", chat_body("", true)));
      world.model->wait_paused(++paused);
      const Scrape during = scrape_until(world, [&](const Scrape& now) { return in(now, name) == 1; });
      CHECK(during.sum("k3_requests_in_state") == 1);
      check_no_fall(before, during);
      if (leaves) {
        client.close();
        world.model->wait_cancelled(++cancelled);
      } else {
        world.model->release();
        CHECK(client.reply().events().back() == "[DONE]");
      }
      before = scrape_until(world, [&](const Scrape& now) { return now.sum("k3_requests_in_state") == 0; });
      CHECK(before.at("k3_cancelled_total{phase=\"" + std::string(name) + "\"}") == (leaves ? 1 : 0));
    }
  }
  world.model->script({.ids = plain_output("ok"), .fail_at = 1});
  CHECK(world.chat().status == 500);
  CHECK(world.chat("", true).status == 200);
  CHECK(world.chat(R"("n":3)").status == 400);
  const Scrape last = scrape_until(world, [](const Scrape& now) { return now.samples.contains(kChat + R"("400",finish=""})"); });
  CHECK(last.at(kChat + R"("200",finish="stop"})") == 3);
  CHECK(last.at(kChat + R"("200",finish="gone"})") == 3);
  CHECK(last.at(kChat + R"("500",finish="failed"})") == 1);
  CHECK(last.at(kChat + R"("200",finish="failed"})") == 1);
  CHECK(last.at("k3_e2e_seconds_count") == 3);
  CHECK(last.at("k3_ttft_seconds_count") == 3 + 1 + 2);  // the last two failed after one token
  CHECK(last.at(R"(k3_ttft_seconds_bucket{le="14400"})") == 6);
  CHECK(last.at("k3_queue_wait_seconds_count") > 3);
  CHECK(last.at("k3_inter_token_seconds_count") > 3);
}

TEST_CASE("G4: whatever is asked for, no series is written twice and none has a client's words in it") {
  World world;
  world.model->script({.ids = plain_output("ok")});
  Scrape before = scrape(world);
  const std::vector<std::string> asked{
      request("GET", "/health"),
      request("GET", "/metrics?x=\"}\n"),
      request("GET", "/v1/models/odd%22name%0a"),
      request("GET", "/nowhere/%22%7d"),
      request("DELETE", "/metrics"),
      request("OPTIONS", "*"),
      request("GET", "/"),
      "nonsense\r\n\r\n",
      "GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      request("POST", "/tokenize", R"({"content":"x"})"),
      request("POST", "/v1/chat/completions", R"({"model":"\"}\n","messages":[{"role":"user","content":"hi"}]})"),
      request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":2})"),
  };
  for (int round = 0; round < 3; ++round) {
    for (const std::string& bytes : asked) {
      Client client(world.server->port());
      client.send(bytes);
      client.reply();
      const Scrape now = scrape(world);
      check_no_fall(before, now);
      before = now;
    }
  }
  const Scrape last = scrape_until(world, [](const Scrape& now) {
    return now.at(R"(k3_requests_total{endpoint="/v1/completions",code="200",finish="length"})") == 3;
  });
  CHECK(last.at(R"(k3_requests_total{endpoint="/v1/models/{id}",code="404",finish=""})") == 3);
  CHECK(last.samples.contains(R"(k3_requests_total{endpoint="other",code="404",finish=""})"));
  for (const auto& [series, value] : last.samples) CHECK(series.find("odd") == std::string::npos);
}

TEST_CASE("metrics ask for the key, where there is one") {
  const auto path = std::filesystem::temp_directory_path() / ("k3_metrics_key_" + std::to_string(::getpid()));
  std::ofstream(path) << "secret\n";
  server::ServerOptions options;
  options.api_key_file = path;
  World world(options);
  std::filesystem::remove(path);
  CHECK(world.get("/metrics").status == 401);
  Client client(world.server->port());
  client.send(request("GET", "/metrics", "", "Authorization: Bearer secret\r\n"));
  CHECK(client.reply().status == 200);
}

TEST_CASE("timings tell what an answer took from the drive") {
  World world;
  Script script{.ids = plain_output("alpha beta gamma")};
  script.prefill = {.expert_bytes = 3000, .trunk_bytes = 1000, .expert_hits = 1, .expert_misses = 3, .expert_wait_s = 0.5};
  script.decode = {.expert_bytes = 700, .expert_hits = 3, .expert_misses = 1, .trunk_wait_s = 0.25};
  world.model->script(script);
  const auto check = [&](const json::Value& answer) {
    const json::Value& timings = *answer.find("timings");
    const auto number = [&](std::string_view name) { return timings.find(name)->as_double().value(); };
    const double stepped = number("predicted_n") - 1;  // the last token is written and not read
    CHECK(number("prompt_read_bytes") == 4000);
    CHECK(number("prompt_read_bytes_per_token") == Approx(4000 / number("prompt_n")));
    CHECK(number("prompt_expert_hit_rate") == 0.25);
    CHECK(number("prompt_expert_wait_ms") == 500);
    CHECK(number("predicted_read_bytes") == 700);
    CHECK(number("predicted_read_bytes_per_token") == Approx(700 / stepped));
    CHECK(number("read_bytes") == 4700);
    CHECK(number("read_bytes_per_token") == Approx(4700 / (number("prompt_n") + stepped)));
    return number("predicted_expert_hit_rate");
  };
  CHECK(check(world.chat().json()) == 0.75);
  const auto events = world.chat("", true).events();
  CHECK(check(json::parse(events[events.size() - 2]).value()) == 0.75);
  // Ended by a stop string it has the numbers up to there, though the model's own account never comes.
  check(world.chat(R"("stop":" gam")").json());
}
