// F2: five hundred calls, written by hand and put together by rule, streamed id by id. At every step what has been sent of a call's
// arguments is the beginning of a JSON object, and in the end it is the object that an answer in one piece has.
#include <array>

#include "model/text/utf8.hpp"
#include "tests/json_prefix.hpp"
#include "tests/text/channel_fixture.hpp"

using namespace k3;
using namespace k3::channel_test;

namespace {

struct Given {
  std::string_view type, raw;
};

// As K3 writes values: a string as it is, anything else as JSON, in whatever spelling the model likes; some are no JSON at all.
constexpr auto values = std::to_array<Given>({
    {"string", ""},
    {"string", "plain"},
    {"string", "say \"hi\" and 'hi'"},
    {"string", "C:\\path\\new\\u0041"},
    {"string", "line one\nline two\r\n\ttab"},
    {"string", std::string_view("\0\x01\x1f\x7f", 4)},
    {"string", "ďábel, 汉字, עברית, 한국어"},
    {"string", "😀👩‍👩‍👧‍👦🏳️‍🌈"},
    {"string", "{\"a\": [1, 2], \"b\": null}"},
    {"string", "12"},
    {"string", "null"},
    {"string", "\",\"x\":\""},
    {"string", "\\\"\\\\\""},
    {"string", "<|open|>call tool=\"g\" index=\"9\"<|sep|> & <|close|>argument<|sep|>"},
    {"string", "response think tools call argument message json"},
    {"string", "</script> & &amp; &quot; \u2028\u2029"},
    {"string", "def f(x):\n    return f\"{x!r}\\n\"\n"},
    {"number", "0"},
    {"number", "-0"},
    {"number", "16"},
    {"number", "1e2"},
    {"number", "-1.50E+07"},
    {"number", "18446744073709551616"},
    {"number", "0.1000000000000000055511151231257827"},
    {"number", " 7 "},
    {"number", "NaN"},
    {"number", "-Infinity"},
    {"number", "+1"},
    {"number", "01"},
    {"number", "1."},
    {"number", ""},
    {"number", "1,000"},
    {"boolean", "true"},
    {"boolean", "false"},
    {"boolean", "True"},
    {"boolean", "yes \"or\" no"},
    {"null", "null"},
    {"null", "None"},
    {"null", ""},
    {"array", "[]"},
    {"array", "[1, \"two\", [3.0], {\"four\": null}]"},
    {"array", "[\"\\ud83d\\ude00\", \"😀\", \"\\n\"]"},
    {"array", "[1, 2"},
    {"array", "[\"\\ud83d\"]"},
    {"array", "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"},
    {"object", "{}"},
    {"object", "{\"x\": [1,2], \"x\": {\"y\": \"\\\"\"}}"},
    {"object", "{\n  \"deep\": {\"er\": {\"and\": [true, false]}}\n}"},
    {"object", "{'single': 1}"},
    {"object", "{\"a\": 1} trailing"},
    {"mystery", "what is this"},
    {"integer", "5"},
});

constexpr auto keys = std::to_array<std::string_view>(
    {"a", "city", "two words", "", "ключ", "😀", "a\\b", "a/b~c", "line\nbreak", "a&amp;b", "q&quot;q", "a", "index", "json"});

// Ids of one byte each, so that code points and escapes are split in every way that ids can split them.
Ids bytewise(std::string_view text) {
  static const std::map<std::string, TokenId, std::less<>> single = [] {
    std::map<std::string, TokenId, std::less<>> found;
    for (TokenId id = 0; id < tokenizer().vocabulary_size(); ++id) {
      if (!tokenizer().is_reserved(id) && tokenizer().bytes(id).size() == 1) found.emplace(tokenizer().bytes(id), id);
    }
    return found;
  }();
  Ids ids;
  for (std::size_t i = 0; i < text.size(); ++i) ids.push_back(single.find(text.substr(i, 1))->second);
  return ids;
}

class Script {
 public:
  explicit Script(std::size_t number) : bytewise_(number % 2 == 1) {}

  Script& marker(bool opening, std::string_view inside) {
    add(opening ? "<|open|>" : "<|close|>", true);
    add(inside, false);
    return add("<|sep|>", true);
  }
  Script& open(std::string_view inside) { return marker(true, inside); }
  Script& close(std::string_view tag) { return marker(false, tag); }
  // What the model says; never a control token.
  Script& text(std::string_view text) {
    if (!bytewise_) return add(text, false);
    const Ids more = bytewise(text);
    ids_.insert(ids_.end(), more.begin(), more.end());
    return *this;
  }
  Script& control(std::string_view token) { return add(token, true); }
  const Ids& ids() const { return ids_; }

 private:
  Script& add(std::string_view text, bool special) {
    const Ids more = tokenizer().encode(text, special).value();
    ids_.insert(ids_.end(), more.begin(), more.end());
    return *this;
  }
  bool bytewise_;
  Ids ids_;
};

// How a call's markers are broken.
enum class Fault {
  none,
  no_argument_closer,
  no_call_closer,
  no_tools_closer,
  no_closers,
  doubled_argument_closer,
  doubled_call_closer,
  closers_swapped,
  stray_opener,
  no_type,
  no_key,
  unknown_closer,
  text_between,
  json_block,
  broken_json_block,
  count
};

struct Expected {
  std::vector<std::pair<std::string, Given>> arguments;
};

void write_argument(Script& script, std::string_view key, const Given& value, Fault fault) {
  std::string header = "argument";
  if (fault != Fault::no_key) header += " key=\"" + std::string(key) + "\"";
  if (fault != Fault::no_type) header += " type=\"" + std::string(value.type) + "\"";
  script.open(header);
  script.text(value.raw);
  if (fault == Fault::unknown_closer) script.close("zebra");
  if (fault == Fault::closers_swapped) return;
  if (fault == Fault::stray_opener) script.control("<|open|>");
  if (fault != Fault::no_argument_closer && fault != Fault::no_closers) script.close("argument");
  if (fault == Fault::doubled_argument_closer) script.close("argument");
  if (fault == Fault::text_between) script.text(" and {\"then\": ");
}

Script call_script(std::size_t number, Fault fault, Expected& expected) {
  Script script(number);
  script.close("response").open("tools").open("call tool=\"f\" index=\"1\"");
  if (fault == Fault::json_block) script.open("json type=\"object\"").text("{\"whole\": [1, \"two\"]}").close("json");
  if (fault == Fault::broken_json_block) script.open("json type=\"object\"").text("{\"whole\": [1, \"tw").close("json");
  const std::size_t arguments = number % 6;
  for (std::size_t i = 0; i < arguments; ++i) {
    const Given& value = values[(number * 7 + i * 11) % values.size()];
    const std::string_view key = keys[(number / 3 + i) % keys.size()];
    write_argument(script, key, value, fault);
    expected.arguments.emplace_back(key, value);
  }
  if (fault != Fault::no_call_closer && fault != Fault::no_closers) script.close("call");
  if (fault == Fault::closers_swapped) script.close("argument");
  if (fault == Fault::doubled_call_closer) script.close("call");
  if (fault != Fault::no_tools_closer && fault != Fault::no_closers) script.close("tools");
  script.close("message").control("<|end_of_msg|>");
  return script;
}

// Pushes the ids and looks at all that has been sent after each of them.
std::string stream(const Ids& ids, bool& begun) {
  ChannelParser parser(tokenizer(), false);
  test::JsonPrefix scanner;
  std::string sent;
  begun = false;
  const auto take = [&](const std::vector<text::Delta>& deltas) {
    for (const text::Delta& delta : deltas) {
      begun = begun || std::holds_alternative<text::ToolCallBegin>(delta);
      const auto* more = std::get_if<text::ToolCallArguments>(&delta);
      if (more == nullptr) continue;
      REQUIRE(begun);
      REQUIRE_FALSE(text::utf8::find_invalid(more->json).has_value());
      sent += more->json;
      INFO(sent);
      REQUIRE(scanner.push(more->json));
      const auto completed = json::parse(sent + scanner.completion());
      REQUIRE((completed.has_value() && completed->is_object()));
    }
  };
  for (const TokenId id : ids) take(parser.push(id));
  take(parser.finish());
  if (!parser.message().tool_calls.empty()) {
    CHECK(scanner.complete());
    CHECK(parser.message().tool_calls[0].arguments == sent);
  }
  CHECK(parser.message().content.empty());
  return sent;
}

void check_value(const json::Value& value, const Given& given) {
  INFO(given.type << ": " << given.raw);
  const bool literal = given.type != "string" && json::parse(given.raw).has_value();
  if (!literal) {
    CHECK(value.is_string());
    CHECK(value.text == given.raw);
    return;
  }
  std::string written, wanted;
  json::Writer(written).value(value);
  json::Writer(wanted).value(json::parse(given.raw).value());
  CHECK(written == wanted);
}

std::string unescaped(std::string key) {
  if (key == "a&amp;b") return "a&b";
  return key == "q&quot;q" ? "q\"q" : key;
}

}  // namespace

TEST_CASE("F2: of 500 calls every step of the streamed arguments is the beginning of a JSON object, and the end is the whole",
          "[channel]") {
  constexpr auto faults = static_cast<std::size_t>(Fault::count);
  for (std::size_t number = 0; number < 500; ++number) {
    // The first 200 calls are as they should be, each of the faults comes some twenty times.
    const auto fault = number < 200 ? Fault::none : static_cast<Fault>(number % faults);
    Expected expected;
    const Script script = call_script(number, fault, expected);
    INFO("call " << number << " with fault " << static_cast<int>(fault));
    bool begun = false;
    const std::string sent = stream(script.ids(), begun);
    CHECK(begun);
    const Outcome outcome = run(script.ids(), false);
    REQUIRE(outcome.message.tool_calls.size() == 1);
    CHECK(outcome.message.tool_calls[0].arguments == sent);
    const json::Value whole = json::parse(sent).value();
    if (fault == Fault::json_block || fault == Fault::broken_json_block) {
      CHECK(whole.find(fault == Fault::json_block ? "whole" : "json") != nullptr);
      continue;
    }
    if (fault == Fault::no_key) {
      CHECK(whole.members.empty());
      continue;
    }
    REQUIRE(whole.members.size() == expected.arguments.size());
    for (std::size_t i = 0; i < whole.members.size(); ++i) {
      Given given = expected.arguments[i].second;
      if (fault == Fault::no_type) given.type = "string";
      CHECK(whole.members[i].key == unescaped(expected.arguments[i].first));
      check_value(whole.members[i].value, given);
    }
  }
}

TEST_CASE("F2: a call that is cut anywhere has sent the beginning of what the whole call sends", "[channel]") {
  for (std::size_t number = 0; number < 500; number += 9) {
    Expected expected;
    const Script script = call_script(number, static_cast<Fault>(number / 9 % static_cast<std::size_t>(Fault::count)), expected);
    bool begun = false;
    const std::string whole = stream(script.ids(), begun);
    for (std::size_t length = 0; length < script.ids().size(); ++length) {
      INFO("call " << number << " cut to " << length);
      const std::string sent = stream(Ids(script.ids().begin(), script.ids().begin() + static_cast<std::ptrdiff_t>(length)), begun);
      REQUIRE(whole.starts_with(sent));
    }
  }
}
