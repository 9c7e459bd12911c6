// The tokens shown beside a text are those the text is made of, taken as it comes or at its end, however broken the bytes.
#include <random>

#include "model/generation/answer.hpp"
#include "model/text/utf8.hpp"
#include "tests/catch.hpp"

using namespace k3;
using generation::Answer;
using generation::AnswerOptions;
using generation::SpokenToken;

namespace {

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer loaded = text::Tokenizer::load(K3_SOURCE_DIR "/tools/mini/model").value();
  return loaded;
}

// Of one byte each, so that code points come in pieces.
std::vector<text::TokenId> byte_tokens(std::string_view bytes) {
  std::vector<text::TokenId> ids;
  for (const char byte : bytes) {
    text::TokenId id = 0;
    while (tokenizer().bytes(id) != std::string_view(&byte, 1)) ++id;
    ids.push_back(id);
  }
  return ids;
}

struct Shown {
  std::vector<text::TokenId> ids;
  std::string bytes, text;
  friend bool operator==(const Shown&, const Shown&) = default;
};

Shown run(const std::vector<text::TokenId>& ids, const std::vector<std::string>& stops, bool as_it_comes) {
  AnswerOptions options;
  options.plain = true;
  options.stops = stops;
  options.logprobs = true;
  Answer answer(tokenizer(), options);
  Shown shown;
  const auto take = [&] {
    for (const SpokenToken& token : answer.spoken()) {
      shown.ids.push_back(token.id);
      shown.bytes += token.bytes;
    }
  };
  for (const text::TokenId id : ids) {
    if (answer.stopped()) break;
    answer.push(id);
    if (as_it_comes) take();
  }
  answer.finish(FinishReason::stop);
  take();
  shown.text = answer.message().content;
  return shown;
}

std::string replaced(std::string_view bytes) {
  std::string text;
  if (text::utf8::append_replacing(text, bytes) > 0) text += text::utf8::kReplacement;
  return text;
}

}  // namespace

TEST_CASE("broken bytes before a stop string: the same tokens, streamed or not, and their bytes are the text's") {
  const std::string pieces[] = {"a", "e", "é", "汉", "😀", "\xf0\x9f", "\xe6", "\xc3", "\xff", "\x80", "\xef\xbf\xbd", "n"};
  std::minstd_rand random(3);
  for (int round = 0; round < 400; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes += pieces[random() % std::size(pieces)];
    const auto ids = byte_tokens(bytes);
    for (const std::vector<std::string>& stops : {std::vector<std::string>{}, {"e"}, {"ne", "汉"}}) {
      CAPTURE(round, stops.size());
      const Shown streamed = run(ids, stops, true), whole = run(ids, stops, false);
      CHECK((streamed == whole));
      CHECK(replaced(streamed.bytes) == streamed.text);
      CHECK(bytes.starts_with(streamed.bytes));
    }
  }
}
