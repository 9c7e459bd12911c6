// The small model's own answers: parsed whole, then broken in every way a model breaks them.
#include "model/text/chat_format.hpp"
#include "tests/text/channel_fixture.hpp"

namespace {

using namespace k3;
using namespace k3::channel_test;

bool thinking(const Transcript& transcript) { return text::read_chat_request(transcript.request)->thinking; }

std::string all_text(const ParsedMessage& message) {
  std::string text = message.reasoning + "\n" + message.content;
  for (const text::ToolCall& call : message.tool_calls) text += "\n" + call.name + "\n" + call.arguments;
  return text;
}
std::string all_text(const Outcome& outcome) {
  std::string text = outcome.reasoning + "\n" + outcome.content;
  for (const auto& [index, call] : outcome.calls) text += "\n" + call.name + "\n" + call.arguments;
  return text;
}

std::size_t count(std::string_view text, std::string_view word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

constexpr std::string_view marker_words[] = {"<|",   "|>",       "think",  "response", "message", "tools",
                                             "call", "argument", "index=", "type=",    "key=",    "tool="};

// No word of a marker may turn up that the undamaged answer does not have; `repeats`: one of its own may be there twice.
void check_no_leak(const Outcome& outcome, const Outcome& whole, std::size_t repeats = 0) {
  const std::string text = all_text(outcome);
  const std::string original = all_text(whole);
  for (const std::string_view word : marker_words) {
    INFO(word << " in " << text);
    CHECK(count(text, word) <= count(original, word) + repeats);
  }
}

// Which ids lie between <|open|> or <|close|> and <|sep|>, these included.
std::vector<bool> structure(const Ids& ids) {
  const auto& control = tokenizer().control();
  std::vector<bool> result;
  bool inside = false;
  for (const TokenId id : ids) {
    inside = inside || id == control.open || id == control.close;
    result.push_back(inside || tokenizer().is_reserved(id));
    if (id == control.separator) inside = false;
  }
  return result;
}

}  // namespace

TEST_CASE("the transcripts' prompts are rendered and tokenised to the same ids", "[chat][channel]") {
  REQUIRE(transcripts().size() >= 40);
  for (const Transcript& transcript : transcripts()) {
    const auto segments = text::render(*text::read_chat_request(transcript.request));
    REQUIRE(segments.has_value());
    CHECK(tokenizer().encode(std::span(*segments)).value() == transcript.prompt);
  }
}

TEST_CASE("the transcripts parse to their messages", "[channel]") {
  for (const Transcript& transcript : transcripts()) {
    const Outcome outcome = run(transcript.output, thinking(transcript), 5);
    const ParsedMessage& message = outcome.message;
    CHECK(outcome.ended);
    const json::Value* reasoning = transcript.message.find("reasoning_content");
    CHECK(message.has_reasoning == (reasoning != nullptr));
    if (reasoning) CHECK(message.reasoning == reasoning->text);
    CHECK(message.has_content);
    CHECK(message.content == transcript.message.find("content")->text);
    const json::Value* calls = transcript.message.find("tool_calls");
    REQUIRE(message.tool_calls.size() == (calls ? calls->items.size() : 0));
    for (std::size_t i = 0; i < message.tool_calls.size(); ++i) {
      const json::Value& function = *calls->items[i].find("function");
      CHECK(message.tool_calls[i].name == function.find("name")->text);
      CHECK(message.tool_calls[i].arguments == function.find("arguments")->text);
      CHECK(message.tool_calls[i].id == message.tool_calls[i].name + "_" + std::to_string(5 + i));
    }
  }
}

TEST_CASE("a copy of the parser at every id goes on to the same message", "[channel]") {
  for (const Transcript& transcript : transcripts()) {
    const Outcome whole = run(transcript.output, thinking(transcript));
    ChannelParser parser(tokenizer(), thinking(transcript));
    for (std::size_t cut = 0; cut < transcript.output.size(); ++cut) {
      ChannelParser copy = parser;
      for (std::size_t i = cut; i < transcript.output.size(); ++i) copy.push(transcript.output[i]);
      CHECK(all_text(copy.message()) == all_text(whole.message));
      parser.push(transcript.output[cut]);
    }
  }
}

TEST_CASE("nothing leaks from a transcript cut anywhere", "[channel]") {
  for (const Transcript& transcript : transcripts()) {
    const Outcome whole = run(transcript.output, thinking(transcript));
    for (std::size_t length = 0; length < transcript.output.size(); ++length) {
      INFO("cut to " << length);
      const Outcome cut = run(Ids(transcript.output.begin(), transcript.output.begin() + static_cast<std::ptrdiff_t>(length)),
                              thinking(transcript));
      check_no_leak(cut, whole);
      CHECK(whole.message.reasoning.starts_with(cut.message.reasoning));
      CHECK(whole.message.content.starts_with(cut.message.content));
      CHECK(cut.message.tool_calls.size() <= whole.message.tool_calls.size());
      for (const auto& [index, call] : cut.calls) CHECK(whole.calls.at(index).arguments.starts_with(call.arguments));
    }
  }
}

TEST_CASE("nothing leaks when any one id is missing or twice", "[channel]") {
  for (const Transcript& transcript : transcripts()) {
    const Outcome whole = run(transcript.output, thinking(transcript));
    const std::vector<bool> structural = structure(transcript.output);
    for (std::size_t i = 0; i < transcript.output.size(); ++i) {
      INFO("id " << i << " of " << all_text(whole));
      const auto place = static_cast<std::ptrdiff_t>(i);
      Ids missing = transcript.output;
      missing.erase(missing.begin() + place);
      check_no_leak(run(missing, thinking(transcript)), whole);
      Ids twice = transcript.output;
      twice.insert(twice.begin() + place, twice[i]);
      check_no_leak(run(twice, thinking(transcript)), whole, structural[i] ? 0 : 1);
    }
  }
}

TEST_CASE("one missing closer, opener or separator loses neither answer nor calls", "[channel]") {
  for (const Transcript& transcript : transcripts()) {
    const Outcome whole = run(transcript.output, thinking(transcript));
    const auto& control = tokenizer().control();
    for (std::size_t i = 0; i < transcript.output.size(); ++i) {
      const TokenId id = transcript.output[i];
      if (id != control.open && id != control.close) continue;
      INFO("id " << i << " of " << all_text(whole));
      Ids missing = transcript.output;
      missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(i));
      const Outcome outcome = run(missing, thinking(transcript));
      CHECK(all_text(outcome.message) == all_text(whole.message));
    }
  }
}

TEST_CASE("unknown tags and stray control tokens leave no trace", "[channel]") {
  const auto& control = tokenizer().control();
  const Ids odd = tokenizer().encode("zebra", false).value();
  for (const Transcript& transcript : transcripts()) {
    const Outcome whole = run(transcript.output, thinking(transcript));
    const std::vector<bool> structural = structure(transcript.output);
    for (std::size_t i = 0; i < transcript.output.size(); ++i) {
      INFO("id " << i << " of " << all_text(whole));
      const auto place = static_cast<std::ptrdiff_t>(i);
      for (const TokenId marker : {control.open, control.close}) {
        Ids inserted{marker};
        inserted.insert(inserted.end(), odd.begin(), odd.end());
        inserted.push_back(control.separator);
        Ids ids = transcript.output;
        ids.insert(ids.begin() + place, inserted.begin(), inserted.end());
        const Outcome outcome = run(ids, thinking(transcript));
        check_no_leak(outcome, whole);
        CHECK(count(all_text(outcome), "zebra") == 0);
      }
      for (const TokenId stray : {control.open, control.close, control.separator, control.end_of_message}) {
        // Inside a header a separator is its end: what follows is text, and nobody can tell that it should not be.
        if (stray == control.separator && structural[i]) continue;
        Ids ids = transcript.output;
        ids.insert(ids.begin() + place, stray);
        check_no_leak(run(ids, thinking(transcript)), whole);
      }
    }
  }
}

TEST_CASE("a renamed tag leaves no trace", "[channel]") {
  const auto& control = tokenizer().control();
  for (const std::string_view name : {"zebra", "responses", "think2", "tool", ""}) {
    const Ids odd = tokenizer().encode(name, false).value();
    for (const Transcript& transcript : transcripts()) {
      const Outcome whole = run(transcript.output, thinking(transcript));
      for (std::size_t i = 0; i + 1 < transcript.output.size(); ++i) {
        if (transcript.output[i] != control.open && transcript.output[i] != control.close) continue;
        INFO("tag after id " << i << " renamed to " << name << " in " << all_text(whole));
        const auto place = static_cast<std::ptrdiff_t>(i + 1);
        Ids ids = transcript.output;
        ids.erase(ids.begin() + place);
        ids.insert(ids.begin() + place, odd.begin(), odd.end());
        const Outcome outcome = run(ids, thinking(transcript));
        check_no_leak(outcome, whole);
        if (name == "zebra") CHECK(count(all_text(outcome), "zebra") == 0);
      }
    }
  }
}
