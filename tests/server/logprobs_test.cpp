// D9: log-probabilities beside the text. Whatever the model wrote, the bytes of the tokens are the bytes of the text.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/server/message.hpp"

using namespace k3;
using namespace k3::test;

namespace {

std::string bytes_of(const json::Value& list) {
  std::string bytes;
  for (const auto& byte : list.items) bytes += static_cast<char>(byte.as_int().value());
  return bytes;
}

struct Shown {
  std::string text;   // as the content says
  std::string bytes;  // as the tokens say
  std::size_t tokens = 0;
  bool operator==(const Shown&) const = default;
};

void take_chat(Shown& shown, const json::Value& choice, std::string_view content, std::size_t top) {
  shown.text += content;
  const json::Value* logprobs = choice.find("logprobs");
  if (logprobs == nullptr || logprobs->is_null()) return;
  for (const auto& token : logprobs->find("content")->items) {
    ++shown.tokens;
    const std::string bytes = bytes_of(*token.find("bytes"));
    shown.bytes += bytes;
    CHECK(!bytes.empty());
    CHECK(token.find("logprob")->as_double().value() <= 0);
    const std::string name = token.find("token")->text;
    CHECK((name == bytes || name.starts_with("bytes:\\x")));
    REQUIRE(token.find("top_logprobs")->items.size() == top);
    for (std::size_t i = 0; i < top; ++i) {
      const auto& rival = token.find("top_logprobs")->items[i];
      CHECK(rival.find("logprob")->as_double().value() == -0.5 * static_cast<double>(i));
      CHECK(!rival.find("token")->text.empty());
      CHECK((rival.find("bytes")->is_null() || !rival.find("bytes")->items.empty()));
    }
  }
}

Shown chat_whole(World& world, const std::string& extra, std::size_t top) {
  const auto answer = world.chat(extra).json();
  const auto& choice = answer.find("choices")->items[0];
  Shown shown;
  take_chat(shown, choice, choice.find("message")->find("content")->text, top);
  return shown;
}

Shown chat_streamed(World& world, const std::string& extra, std::size_t top) {
  Shown shown;
  auto events = world.chat(extra, true).events();
  REQUIRE(events.back() == "[DONE]");
  events.pop_back();
  for (const auto& event : events) {
    const auto chunk = json::parse(event).value();
    const auto& choice = chunk.find("choices")->items[0];
    take_chat(shown, choice, text_of(*choice.find("delta"), "content"), top);
  }
  return shown;
}

}  // namespace

TEST_CASE("D9: chats, streamed and not, with code points in pieces") {
  World world;
  for (const char* text :
       {"one two", "smile 😀, 汉字 ď 👩‍👩‍👧 & <tag>\n", "<|close|> spelled out", "response", ""}) {
    INFO(text);
    world.model->script({.ids = plain_output(text)});
    const Shown whole = chat_whole(world, R"("logprobs":true,"top_logprobs":2)", 2);
    CHECK(whole.text == text);
    CHECK(whole.bytes == text);
    CHECK(chat_streamed(world, R"("logprobs":true,"top_logprobs":2)", 2) == whole);
    CHECK(world.model->last_job().logprobs == 2U);
    // Thinking and markers have no entry: no more tokens than the text alone has, give or take where it was cut.
    CHECK(whole.tokens <= std::string_view(text).size());
  }
  CHECK(chat_whole(world, R"("logprobs":true)", 0).tokens == 0);
  CHECK(world.model->last_job().logprobs == 0U);
  const auto ids = plain_output("one two");
  for (std::size_t length = 0; length <= ids.size(); ++length) {
    world.model->script({.ids = {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length)}});
    const Shown shown = chat_whole(world, R"("logprobs":true)", 0);
    CHECK(shown.bytes == shown.text);
    CHECK(chat_streamed(world, R"("logprobs":true)", 0) == shown);
  }
}

TEST_CASE("D9: an id has the number that the model gave it, and not its neighbour's") {
  World world;
  const auto ids = world.tokenizer->encode("alpha beta gamma", false).value();
  auto all = world.tokenizer->encode("hm<|close|>think<|sep|><|open|>response<|sep|>", true).value();
  all.insert(all.end(), ids.begin(), ids.end());
  world.model->script({.ids = all});
  const auto answer = world.chat(R"("logprobs":true)").json();
  const auto& content = answer.find("choices")->items[0].find("logprobs")->find("content")->items;
  REQUIRE(content.size() == ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    CHECK(bytes_of(*content[i].find("bytes")) == world.tokenizer->bytes(ids[i]));
    CHECK(content[i].find("logprob")->as_double().value() == static_cast<double>(scripted_logprobs(ids[i], 0).own));
  }
}

TEST_CASE("D9: a stop string cuts the tokens where it cuts the text") {
  World world;
  const std::string text = "alpha beta, gamma delta";
  world.model->script({.ids = plain_output(text)});
  for (std::size_t at = 1; at + 3 < text.size(); ++at) {
    const std::string extra = R"("logprobs":true,"stop":")" + text.substr(at, 3) + "\"";
    INFO(extra);
    const Shown whole = chat_whole(world, extra, 0);
    CHECK(whole.text == text.substr(0, text.find(text.substr(at, 3))));
    CHECK(whole.bytes == whole.text);
    CHECK(chat_streamed(world, extra, 0) == whole);
  }
}

TEST_CASE("D9: the answer of a model that forgot to open its channel") {
  World world;
  world.model->script(
      {.ids = world.tokenizer->encode("hm<|close|>think<|sep|>so it is<|close|>response<|sep|><|close|>message<|sep|>", true)
                  .value()});
  const Shown whole = chat_whole(world, R"("logprobs":true)", 0);
  CHECK(whole.text == "so it is");
  CHECK(whole.bytes == "so it is");
  CHECK(chat_streamed(world, R"("logprobs":true)", 0) == whole);
}

TEST_CASE("D9: text completions") {
  World world;
  const std::string text = "one 😀 two";
  const auto ids = world.tokenizer->encode(text, false).value();
  world.model->script({.ids = ids});
  const std::string body = R"({"prompt":"x","max_tokens":100,"logprobs":2)";
  const auto answer = world.post("/v1/completions", body + "}").json();
  const auto& logprobs = *answer.find("choices")->items[0].find("logprobs");
  const std::size_t count = ids.size();
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset", "bytes"})
    REQUIRE(logprobs.find(list)->items.size() == count);
  std::string bytes;
  std::int64_t characters = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string piece = bytes_of(logprobs.find("bytes")->items[i]);
    CHECK(piece == world.tokenizer->bytes(ids[i]));
    bytes += piece;
    CHECK(logprobs.find("text_offset")->items[i].as_int().value() == characters);
    for (const char byte : piece) characters += (static_cast<unsigned char>(byte) & 0xc0) != 0x80 ? 1 : 0;
    CHECK(logprobs.find("token_logprobs")->items[i].as_double().value() == static_cast<double>(scripted_logprobs(ids[i], 0).own));
    CHECK(logprobs.find("top_logprobs")->items[i].members.size() == 2);
  }
  CHECK(bytes == text);
  CHECK(characters == 9);
  auto events = world.post("/v1/completions", body + R"(,"stream":true})").events();
  events.pop_back();
  std::string streamed_bytes, streamed_text;
  std::vector<std::int64_t> offsets;
  for (const auto& event : events) {
    const auto chunk = json::parse(event).value();
    const auto& choice = chunk.find("choices")->items[0];
    streamed_text += text_of(choice, "text");
    if (choice.find("logprobs")->is_null()) continue;
    for (const auto& list : choice.find("logprobs")->find("bytes")->items) streamed_bytes += bytes_of(list);
    for (const auto& offset : choice.find("logprobs")->find("text_offset")->items) offsets.push_back(offset.as_int().value());
  }
  CHECK(streamed_text == text);
  CHECK(streamed_bytes == text);
  REQUIRE(offsets.size() == count);
  for (std::size_t i = 0; i < count; ++i) CHECK(offsets[i] == logprobs.find("text_offset")->items[i].as_int().value());
}

TEST_CASE("log-probabilities that nobody asked for are not made, and what cannot be is refused") {
  World world;
  world.model->script({.ids = plain_output("x")});
  for (const char* off : {"", R"("logprobs":false)", R"("logprobs":null,"top_logprobs":null)", R"("top_logprobs":0)"}) {
    const auto answer = world.chat(off).json();
    CHECK(answer.find("choices")->items[0].find("logprobs")->is_null());
    CHECK(!world.model->last_job().logprobs);
    for (const auto& event : world.chat(off, true).events()) CHECK(event.find("logprobs") == std::string::npos);
  }
  for (const auto& [wish, param] : {std::pair(R"("logprobs":true,"top_logprobs":21)", "top_logprobs"),
                                    std::pair(R"("logprobs":true,"top_logprobs":-1)", "top_logprobs"),
                                    std::pair(R"("top_logprobs":3)", "top_logprobs"), std::pair(R"("logprobs":3)", "logprobs")}) {
    const Reply reply = world.chat(wish);
    CHECK(reply.status == 400);
    CHECK(reply.error_field("param") == param);
  }
  for (const auto& [wish, param] : {std::pair(R"("logprobs":21)", "logprobs"), std::pair(R"("logprobs":true)", "logprobs"),
                                    std::pair(R"("top_logprobs":3)", "top_logprobs")}) {
    const Reply reply = world.post("/v1/completions", std::string(R"({"prompt":"x",)") + wish + "}");
    CHECK(reply.status == 400);
    CHECK(reply.error_field("param") == param);
  }
  CHECK(world.post("/v1/completions", R"({"prompt":"x","logprobs":false})").status == 200);
}
