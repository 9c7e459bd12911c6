#include <algorithm>
#include <fstream>
#include <set>

#include "model/generation/answer.hpp"
#include "model/text/json.hpp"
#include "tests/catch.hpp"

using namespace k3;
using generation::Answer;
using generation::AnswerOptions;
using text::Delta;

namespace {

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer loaded = text::Tokenizer::load(K3_SOURCE_DIR "/tools/mini/model").value();
  return loaded;
}

struct Transcript {
  bool thinking = false;
  std::vector<text::TokenId> ids;
  std::string content, reasoning, finish_reason;
  std::size_t calls = 0;
};

std::vector<text::TokenId> id_list(const json::Value& value) {
  std::vector<text::TokenId> ids;
  for (const auto& item : value.items) ids.push_back(static_cast<text::TokenId>(item.as_int().value()));
  return ids;
}

const std::vector<Transcript>& transcripts() {
  static const std::vector<Transcript> all = [] {
    std::vector<Transcript> out;
    std::ifstream file(K3_TEST_DATA "/mini_transcripts.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json::Value value = json::parse(line).value();
      const auto prompt = id_list(*value.find("prompt_ids"));
      const json::Value& message = *value.find("message");
      Transcript t;
      t.thinking = tokenizer().bytes(prompt.at(prompt.size() - 2)) == "think";
      t.ids = id_list(*value.find("generated_ids"));
      t.content = message.find("content")->text;
      if (const auto* reasoning = message.find("reasoning_content")) t.reasoning = reasoning->text;
      if (const auto* calls = message.find("tool_calls")) t.calls = calls->items.size();
      t.finish_reason = value.find("finish_reason")->text;
      out.push_back(std::move(t));
    }
    return out;
  }();
  return all;
}

// What a client of the stream puts together.
struct Seen {
  std::string content, reasoning;
  std::size_t calls_begun = 0, calls_ended = 0;

  void add(const std::vector<Delta>& deltas) {
    for (const Delta& delta : deltas) {
      if (const auto* d = std::get_if<text::ContentDelta>(&delta)) content += d->text;
      if (const auto* d = std::get_if<text::ReasoningDelta>(&delta)) reasoning += d->text;
      calls_begun += std::holds_alternative<text::ToolCallBegin>(delta);
      calls_ended += std::holds_alternative<text::ToolCallEnd>(delta);
    }
  }
};

Seen run(Answer& answer, const std::vector<text::TokenId>& ids, FinishReason reason = FinishReason::stop) {
  Seen seen;
  for (const auto id : ids) {
    seen.add(answer.push(id));
    if (answer.stopped()) break;
  }
  seen.add(answer.finish(reason));
  return seen;
}

AnswerOptions options(const Transcript& t, std::vector<std::string> stops) {
  AnswerOptions o;
  o.thinking = t.thinking;
  o.stops = std::move(stops);
  return o;
}

}  // namespace

TEST_CASE("a transcript without stop strings comes out as the reference parsed it") {
  REQUIRE(transcripts().size() >= 40);
  for (const Transcript& t : transcripts()) {
    Answer answer(tokenizer(), options(t, {}));
    const Seen seen = run(answer, t.ids);
    CHECK(seen.content == t.content);
    CHECK(seen.reasoning == t.reasoning);
    CHECK(seen.calls_ended == t.calls);
    CHECK(answer.message().content == t.content);
    CHECK(answer.message().reasoning == t.reasoning);
    CHECK(answer.message().tool_calls.size() == t.calls);
    CHECK(answer.finish_reason() == t.finish_reason);
    CHECK(answer.output_tokens() == t.ids.size());
    CHECK((answer.reasoning_tokens() > 0) == t.thinking);
    CHECK(answer.reasoning_tokens() < t.ids.size());
    CHECK_FALSE(answer.stopped());
    CHECK(answer.finish(FinishReason::length).empty());  // once is enough
  }
}

TEST_CASE("D6, D7, D8: any stop string of length 1 to 12 cuts the response just before itself and nothing else") {
  for (const Transcript& t : transcripts()) {
    std::set<std::string> stops;
    const std::string spelled = tokenizer().decode(t.ids);  // markers spelled out: a stop string from there must not touch them
    for (std::size_t length = 1; length <= 12; ++length) {
      for (std::size_t at = length; at + length <= spelled.size(); at += 11) stops.insert(spelled.substr(at, length));
    }
    for (const std::string& stop : stops) {
      Answer answer(tokenizer(), options(t, {stop}));
      const Seen seen = run(answer, t.ids);
      const std::size_t cut = t.content.find(stop);
      const bool hit = cut != std::string::npos;
      INFO("stop '" << stop << "' in '" << t.content << "'");
      REQUIRE(answer.stopped() == hit);
      REQUIRE(seen.content == (hit ? t.content.substr(0, cut) : t.content));
      REQUIRE(seen.reasoning == t.reasoning);
      REQUIRE(answer.message().content == seen.content);
      REQUIRE(answer.message().reasoning == t.reasoning);
      REQUIRE(seen.calls_ended == (hit ? 0 : t.calls));
      REQUIRE(answer.message().tool_calls.size() == seen.calls_ended);
      REQUIRE(answer.finish_reason() == (hit ? "stop" : t.finish_reason));
      if (hit) REQUIRE(answer.push(t.ids.front()).empty());
    }
  }
}

TEST_CASE("what is not part of a stop string is shown at once") {
  const Transcript* longest = &transcripts().front();
  for (const Transcript& t : transcripts()) {
    if (t.content.size() > longest->content.size()) longest = &t;
  }
  const std::string stop = "zzzz";
  Answer held(tokenizer(), options(*longest, {stop})), plain(tokenizer(), options(*longest, {}));
  Seen with, without;
  for (const auto id : longest->ids) {
    with.add(held.push(id));
    without.add(plain.push(id));
    std::size_t tail = 0;
    while (tail < without.content.size() && tail < 3 && without.content[without.content.size() - 1 - tail] == 'z') ++tail;
    REQUIRE(with.content.size() + tail == without.content.size());
  }
}

TEST_CASE("held-back text comes out when a tool call begins") {
  // Its ids begin with the thinking channel, whose closer is looked for below.
  const auto call =
      std::find_if(transcripts().begin(), transcripts().end(), [](const Transcript& t) { return t.thinking && t.calls > 0; });
  REQUIRE(call != transcripts().end());
  // Some text into the response channel, right before its closer, that looks like the start of a stop string.
  const auto& control = tokenizer().control();
  auto ids = call->ids;
  const std::size_t response =
      1 + static_cast<std::size_t>(std::distance(
              ids.begin(), std::find(std::find(ids.begin(), ids.end(), control.close) + 3, ids.end(), control.separator)));
  const auto text = tokenizer().encode("ab", false).value();
  ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(response), text.begin(), text.end());
  Answer answer(tokenizer(), options(*call, {"abc"}));
  std::string before_call;
  bool begun = false;
  for (const auto id : ids) {
    for (const Delta& delta : answer.push(id)) {
      begun = begun || std::holds_alternative<text::ToolCallBegin>(delta);
      if (const auto* d = std::get_if<text::ContentDelta>(&delta); d != nullptr && !begun) before_call += d->text;
    }
  }
  CHECK(begun);
  CHECK(before_call == "ab");
  answer.finish(FinishReason::stop);
  CHECK(answer.message().content == "ab");
  CHECK(answer.finish_reason() == "tool_calls");
}

TEST_CASE("cut at every id the answer stays consistent") {
  for (const Transcript& t : transcripts()) {
    for (std::size_t n = 0; n < t.ids.size(); n += 3) {
      Answer answer(tokenizer(), options(t, {"\n\n"}));
      const Seen seen = run(answer, {t.ids.begin(), t.ids.begin() + static_cast<std::ptrdiff_t>(n)}, FinishReason::length);
      REQUIRE(t.content.starts_with(seen.content));
      REQUIRE(t.reasoning.starts_with(seen.reasoning));
      REQUIRE(answer.message().content == seen.content);
      REQUIRE(answer.message().tool_calls.size() == seen.calls_ended);  // a call cut short is not in the message
      const bool in_call = seen.calls_begun > seen.calls_ended;
      const bool calls = seen.calls_ended > 0 && !(in_call && !answer.stopped());
      REQUIRE(answer.finish_reason() == (calls ? "tool_calls" : answer.stopped() ? "stop" : "length"));
    }
  }
}

TEST_CASE("a plain completion is all content, without control tokens, in whole code points") {
  const auto& control = tokenizer().control();
  AnswerOptions plain;
  plain.plain = true;
  auto ids = tokenizer().encode("a \xF0\x9F\x98\x80 b", false).value();
  ids.insert(ids.begin() + 1, control.open);
  ids.push_back(control.end_of_message);
  Answer answer(tokenizer(), plain);
  Seen seen;
  for (const auto id : ids) {
    for (const Delta& delta : answer.push(id)) {
      const auto& text = std::get<text::ContentDelta>(delta).text;
      CHECK((static_cast<unsigned char>(text.front()) & 0xC0U) != 0x80U);  // never begins inside a code point
      seen.content += text;
    }
  }
  seen.add(answer.finish(FinishReason::length));
  CHECK(seen.content == "a \xF0\x9F\x98\x80 b");
  CHECK(answer.message().content == seen.content);
  CHECK(answer.message().has_content);
  CHECK(answer.finish_reason() == "length");
  CHECK(answer.output_tokens() == ids.size());
  CHECK(answer.reasoning_tokens() == 0);

  plain.stops = {" b"};
  Answer cut(tokenizer(), plain);
  CHECK(run(cut, ids).content == "a \xF0\x9F\x98\x80");
  CHECK(cut.stopped());
}

TEST_CASE("what was thought is counted without what ends it, and where the tokens ran out is known") {
  struct Case {
    const char* output;
    std::size_t thought;
    generation::CutIn cut;
  };
  const auto count = [](const char* text) { return tokenizer().encode(text, false).value().size(); };
  const std::size_t hm = count("hm hm");
  const Case cases[] = {
      {"", 0, generation::CutIn::thinking},
      {"hm hm", hm, generation::CutIn::thinking},
      // A tag's name is a word like any other until a separator makes it a marker.
      {"think", 1, generation::CutIn::thinking},
      {"hm hm<|close|>", hm, generation::CutIn::thinking},
      {"hm hm<|close|>think", hm, generation::CutIn::thinking},
      {"hm hm<|close|>think<|sep|>", hm, generation::CutIn::nowhere},
      // The closer left out, or without its opener.
      {"hm hm<|open|>response<|sep|>", hm, generation::CutIn::response},
      {"hm hm<|close|>think<|sep|><|open|>response<|sep|>so", hm, generation::CutIn::response},
      {"hm hm<|close|>think<|sep|><|open|>response<|sep|>so<|close|>response<|sep|>", hm, generation::CutIn::nowhere},
      {"<|close|>think<|sep|><|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>", 0, generation::CutIn::call},
  };
  for (const auto& [output, thought, cut] : cases) {
    INFO(output);
    Answer answer(tokenizer(), AnswerOptions{});
    run(answer, tokenizer().encode(output, true).value(), FinishReason::length);
    CHECK(answer.reasoning_tokens() == thought);
    CHECK(answer.cut_in() == cut);
    CHECK(answer.finish_reason() == "length");
    Answer ended(tokenizer(), AnswerOptions{});
    run(ended, tokenizer().encode(output, true).value(), FinishReason::stop);
    CHECK(ended.cut_in() == generation::CutIn::nowhere);
  }
}
