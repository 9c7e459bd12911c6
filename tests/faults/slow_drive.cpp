// A drive that does not answer: nobody is kept from anything but experts.
#include "tests/faults/house.hpp"

using namespace k3;
using namespace k3::faults;

namespace {

const std::filesystem::path kMini = K3_SOURCE_DIR "/tools/mini/model";
const std::string kChat = "/v1/chat/completions", kQuestion = "What is the capital of France?";

// Only the server's timer can send them.
void expect_pings(test::Client& client) {
  // Before the job is taken up they tell of the queue instead.
  for (int i = 0; i < 4; ++i) CHECK(client.chunk().starts_with(": "));
}

// The finish chunk of a stream that goes on to a good end.
json::Value finish_of(test::Client& client) {
  std::vector<std::string> data;
  for (std::string chunk = client.chunk(); !chunk.empty(); chunk = client.chunk()) {
    if (chunk.starts_with("data: ")) data.push_back(chunk.substr(6));
  }
  REQUIRE(data.size() > 2);
  CHECK(data.back() == "[DONE]\n\n");
  return json::parse(data[data.size() - 2]).value();
}

}  // namespace

TEST_CASE("while a drive takes half a minute, pings go on and everything else answers; then comes the answer as ever") {
  const auto drive = std::make_shared<Drive>();
  House house(kMini, drive);
  const std::string before = content_of(house.post(kChat, question(kQuestion)));
  drive->hold();
  test::Client client(house.server->port());
  client.send(test::request("POST", kChat, question(kQuestion, true)));
  test::Reply reply;
  CHECK(client.head(reply) == 200);
  drive->wait_until_held();
  expect_pings(client);
  house.clock_s += 30;
  expect_pings(client);
  CHECK(house.get("/health").status == 200);
  CHECK(house.get("/livez").status == 200);
  CHECK(house.get("/v1/models").status == 200);
  CHECK(house.post("/tokenize", R"({"content":"x"})").status == 200);
  const test::Scrape during = house.scrape();
  CHECK(during.at(R"(k3_jobs{state="running"})") == 1);
  CHECK(during.at(R"(k3_requests_in_state{state="prefill"})") == 1);
  CHECK(during.at("k3_sse_pings_total") >= 7);
  drive->release();
  const json::Value finish = finish_of(client);
  CHECK(finish.find("timings")->find("prompt_ms")->as_double().value() == 30'000);  // nothing else took any time
  CHECK(content_of(house.post(kChat, question(kQuestion))) == before);
}

TEST_CASE(
    "a client that leaves while the drive is silent frees the model; its read is parked, and whoever waits for it is told so") {
  const auto drive = std::make_shared<Drive>();
  const House house(kMini, drive);
  const std::string before = content_of(house.post(kChat, question(kQuestion)));
  drive->hold();
  test::Client leaving(house.server->port()), staying(house.server->port());
  leaving.send(test::request("POST", kChat, question(kQuestion, true)));
  drive->wait_until_held();
  house.wait_until_model_sleeps();
  test::Reply reply;
  staying.send(test::request("POST", kChat, question(kQuestion, true)));
  CHECK(staying.head(reply) == 200);
  while (house.scrape().at(R"(k3_jobs{state="queued"})") != 1) continue;
  leaving.close();
  // The read is still on its way: nothing but the request has ended, and the next one runs.
  while (house.scrape().at(R"(k3_cancelled_total{phase="prefill"})") != 1) continue;
  while (house.scrape().at("k3_expert_parked_total") != 1) continue;
  while (house.scrape().at(R"(k3_jobs{state="queued"})") != 0) continue;
  CHECK(drive->in_flight() == 1);
  expect_pings(staying);
  CHECK(house.get("/health").status == 200);
  drive->release();
  finish_of(staying);
  CHECK(content_of(house.post(kChat, question(kQuestion))) == before);
  while (house.scrape().sum("k3_requests_in_state") + house.scrape().sum("k3_jobs") != 0) continue;
}
