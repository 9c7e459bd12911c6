// The rules of the output grammar one by one, on texts whose control tokens are written out.
#include "tests/text/channel_fixture.hpp"

using namespace k3;
using namespace k3::channel_test;

namespace {

const std::string think_end = "<|close|>think<|sep|>";
const std::string answer = "<|open|>response<|sep|>";
const std::string answer_end = "<|close|>response<|sep|>";
const std::string tools = "<|open|>tools<|sep|>";
const std::string end = "<|close|>message<|sep|><|end_of_msg|>";

std::string call(std::string_view name, std::string_view inside) {
  return "<|open|>call tool=\"" + std::string(name) + "\" index=\"1\"<|sep|>" + std::string(inside) + "<|close|>call<|sep|>";
}
std::string argument(std::string_view key, std::string_view type, std::string_view value) {
  return "<|open|>argument key=\"" + std::string(key) + "\" type=\"" + std::string(type) + "\"<|sep|>" + std::string(value) +
         "<|close|>argument<|sep|>";
}
std::string arguments_of(std::string_view inside) {
  const Outcome out = run(answer_end + tools + call("f", inside) + "<|close|>tools<|sep|>" + end, false);
  REQUIRE(out.message.tool_calls.size() == 1);
  return out.message.tool_calls[0].arguments;
}

}  // namespace

TEST_CASE("F3: the first id is already inside the channel that the prompt opened", "[channel]") {
  const Outcome thinking = run("a thought", true);
  CHECK(thinking.message.reasoning == "a thought");
  CHECK(thinking.message.has_reasoning);
  CHECK_FALSE(thinking.message.has_content);
  CHECK_FALSE(thinking.ended);
  const Outcome plain = run("an answer", false);
  CHECK(plain.message.content == "an answer");
  CHECK_FALSE(plain.message.has_reasoning);
  CHECK(run("", false).message.has_content);
}

TEST_CASE("F1: skipped closers close implicitly", "[channel]") {
  const std::string work = tools + call("f", argument("a", "number", "1"));
  SECTION("think to answer") {
    const Outcome out = run("t" + answer + "r" + end, true);
    CHECK(out.message.reasoning == "t");
    CHECK(out.message.content == "r");
  }
  SECTION("think to tools") {
    const Outcome out = run("t" + work + end, true);
    CHECK(out.message.reasoning == "t");
    CHECK_FALSE(out.message.has_content);
    CHECK(out.message.tool_calls.size() == 1);
  }
  SECTION("think, answer, a closer without its opener, tools") {
    const Outcome open = run("t" + answer + "prose" + answer_end + answer_end + work + end, true);
    CHECK(open.message.content == "prose");
    CHECK(open.message.tool_calls.size() == 1);
    const Outcome unopened = run("t" + think_end + "prose" + answer_end + work + end, true);
    CHECK(unopened.message.reasoning == "t");
    CHECK(unopened.message.content == "prose");
    CHECK(unopened.message.tool_calls.size() == 1);
  }
  SECTION("answer to the end of the message") {
    const Outcome out = run("r" + end, false);
    CHECK(out.message.content == "r");
    CHECK(out.ended);
    CHECK(run("r<|end_of_msg|>", false).ended);
    CHECK(run("r[EOS]", false).ended);
  }
  SECTION("argument, call and tools at once") {
    const std::string open = "<|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" type=\"string\"<|sep|>x";
    for (const std::string& closer : {std::string("<|close|>call<|sep|>") + end, "<|close|>tools<|sep|>" + end, end, open + end}) {
      const Outcome out = run(tools + open + closer, false);
      REQUIRE(!out.message.tool_calls.empty());
      CHECK(out.message.tool_calls[0].arguments == "{\"a\": \"x\"}");
    }
  }
}

TEST_CASE("closers of what is not open and repeated openers change nothing", "[channel]") {
  CHECK(run("a" + think_end + "b<|close|>call<|sep|>c<|close|>nonsense<|sep|>d", false).content == "abcd");
  CHECK(run("a" + answer + answer + "b", false).content == "ab");
  CHECK(run("a<|open|>message role=\"user\"<|sep|>b", false).content == "ab");
  CHECK(run("a<|open|>zebra k=\"v\"<|sep|>b<|close|>zebra<|sep|>c", false).content == "abc");
}

TEST_CASE("text behind a closed channel is dropped, and everything behind the end", "[channel]") {
  const Outcome out = run("t" + think_end + "lost" + answer + "r" + answer_end + "lost" + end + "lost" + answer + "lost", true);
  CHECK(out.message.reasoning == "t");
  CHECK(out.message.content == "r");
}

TEST_CASE("markers spelled out in ordinary tokens stay text", "[channel]") {
  const std::string spelled = "use <|close|>think<|sep|> and <|end_of_msg|>";
  const Outcome out = run(tokenizer().encode(spelled, false).value(), false);
  CHECK(out.content == spelled);
  CHECK_FALSE(out.ended);
  for (const std::string word : {"think", "response", "tools", "call call", "message"}) CHECK(run(word, false).content == word);
}

TEST_CASE("other reserved tokens in an answer are not text", "[channel]") { CHECK(run("a[BOS]b<|sep|>c", false).content == "abc"); }

TEST_CASE("arguments become one JSON object", "[channel]") {
  CHECK(arguments_of("") == "{}");
  CHECK(arguments_of("noise") == "{}");
  CHECK(arguments_of(argument("a", "number", "16") + argument("b", "number", "75")) == R"({"a": 16, "b": 75})");
  CHECK(arguments_of(argument("a", "number", "1e2")) == R"({"a": 1e2})");
  CHECK(arguments_of(argument("a", "number", "18446744073709551616")) == R"({"a": 18446744073709551616})");
  CHECK(arguments_of(argument("a", "number", "NaN")) == R"({"a": "NaN"})");
  CHECK(arguments_of(argument("a", "object", "{\"x\": [1,2]}")) == R"({"a": {"x": [1,2]}})");
  CHECK(arguments_of(argument("a", "object", "{\"x\": [1,2")) == R"({"a": "{\"x\": [1,2"})");
  CHECK(arguments_of(argument("a", "null", "null") + argument("b", "boolean", "true")) == R"({"a": null, "b": true})");
  CHECK(arguments_of(argument("a", "array", "")) == R"({"a": ""})");
  CHECK(arguments_of(argument("a", "string", "say \"hi\"\n\\ ď 😀")) == "{\"a\": \"say \\\"hi\\\"\\n\\\\ ď 😀\"}");
  CHECK(arguments_of(argument("a&amp;&quot;b", "string", "x")) == R"({"a&\"b": "x"})");
  CHECK(arguments_of("<|open|>argument key=\"a\"<|sep|>7<|close|>argument<|sep|>") == R"({"a": "7"})");
  CHECK(arguments_of("<|open|>argument type=\"number\"<|sep|>7<|close|>argument<|sep|>") == "{}");
}

TEST_CASE("a json block is the whole object", "[channel]") {
  const std::string open = "<|open|>json type=\"object\"<|sep|>";
  const std::string close = "<|close|>json<|sep|>";
  CHECK(arguments_of(open + "{\"a\":1}" + close) == R"({"a":1})");
  CHECK(arguments_of(open + "{\"a\":1}" + close + argument("b", "number", "2")) == R"({"a":1})");
  CHECK(arguments_of(argument("b", "number", "2") + open + "{\"a\":1}" + close) == R"({"b": 2})");
  CHECK(arguments_of(open + "{\"a\":" + close) == R"({"json": "{\"a\":"})");
  CHECK(arguments_of(open + "[1]" + close) == R"({"json": "[1]"})");
}

TEST_CASE("calls without a name are dropped, calls cut short are not complete", "[channel]") {
  const std::string nameless = "<|open|>call index=\"1\"<|sep|>" + argument("a", "string", "secret") + "<|close|>call<|sep|>";
  const Outcome out = run(tools + nameless + call("g", "") + call("h", "") + end, false);
  REQUIRE(out.message.tool_calls.size() == 2);
  CHECK(out.message.tool_calls[0].id == "g_0");
  CHECK(out.message.tool_calls[1].id == "h_1");
  CHECK(out.content.empty());

  const std::string half = "<|open|>call tool=\"g\" index=\"2\"<|sep|><|open|>argument key=\"a\" type=\"string\"<|sep|>x";
  for (const std::string& stop : {std::string(), std::string("<|end_of_msg|>")}) {
    const Outcome cut = run(tools + call("f", "") + half + stop, false);
    CHECK(cut.calls.size() == 2);
    REQUIRE(cut.message.tool_calls.size() == 1);
    CHECK(cut.message.tool_calls[0].name == "f");
  }
}

TEST_CASE("F2: a string argument is streamed as it is decoded, in whole code points", "[channel]") {
  ChannelParser parser(tokenizer(), false);
  const std::string head =
      answer_end + tools + "<|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" type=\"string\"<|sep|>";
  for (const TokenId id : encode(head)) parser.push(id);
  std::string json;
  std::size_t with_text = 0;
  const Ids value = tokenizer().encode("The 汉字 of 👩‍👩‍👧‍👦 \"say\" ď", false).value();
  for (const TokenId id : value) {
    for (const text::Delta& delta : parser.push(id)) {
      const std::string& piece = std::get<text::ToolCallArguments>(delta).json;
      CHECK(json::parse("\"" + piece + "\"").has_value());
      json += piece;
      ++with_text;
    }
  }
  CHECK(json == "The 汉字 of 👩‍👩‍👧‍👦 \\\"say\\\" ď");
  CHECK(with_text > 10);
}

TEST_CASE("D1: a code point split over tokens comes out whole, or not at all when the output is cut", "[channel]") {
  ChannelParser parser(tokenizer(), false);
  const Ids bytes = tokenizer().encode("😀", false).value();
  REQUIRE(bytes.size() > 1);
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) CHECK(parser.push(bytes[i]).empty());
  ChannelParser cut = parser;
  const auto deltas = parser.push(bytes.back());
  REQUIRE(deltas.size() == 1);
  CHECK(std::get<text::ContentDelta>(deltas[0]).text == "😀");
  cut.finish();
  CHECK(cut.message().content.empty());
}
