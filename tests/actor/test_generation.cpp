// The actor gives the model's tokens, whatever the chunking, threads, slots and prefix reuse.
#include <algorithm>
#include <cstring>

#include "model/generation/answer_grammar.hpp"
#include "model/run_ids.hpp"
#include "tests/actor/support.hpp"

using namespace k3;
using namespace k3::actor_test;

TEST_CASE("greedy continuation of the golden prompt") {
  for (const std::size_t chunk : {1, 7, 512}) {
    for (const unsigned threads : {1U, 2U}) {
      ModelOptions options = tiny_options();
      options.chunk = chunk;
      options.threads = threads;
      options.expert_gb = chunk == 7 ? 0 : 0.001;  // 0: one slot
      const auto actor = start(options);
      Asker asker;
      REQUIRE(asker.submit(*actor, greedy_job(golden().tokens, golden().greedy.size())).has_value());
      asker.wait();
      INFO("chunk " << chunk << ", threads " << threads);
      REQUIRE(asker.finished() != nullptr);
      CHECK(asker.tokens() == golden().greedy);
      CHECK(asker.finished()->reason == FinishReason::length);
      CHECK(asker.finished()->prompt_tokens == golden().tokens.size());
      CHECK(asker.finished()->cached_tokens == 0);
      CHECK(asker.finished()->output_tokens == golden().greedy.size());
    }
  }
}

TEST_CASE("log-probabilities come where they are asked for, and change nothing") {
  const auto actor = start(tiny_options());
  for (const std::optional<unsigned> count : {std::optional<unsigned>(), std::optional<unsigned>(0), std::optional<unsigned>(3)}) {
    Job job = greedy_job(golden().tokens, golden().greedy.size());
    job.logprobs = count;
    Asker asker;
    REQUIRE(asker.submit(*actor, job).has_value());
    asker.wait();
    CHECK(asker.tokens() == golden().greedy);
    for (const Token& token : asker.all<Token>()) {
      REQUIRE((token.logprobs != nullptr) == count.has_value());
      if (!count) continue;
      CHECK(token.logprobs->own <= 0);
      REQUIRE(token.logprobs->top.size() == *count);
      // Greedy: nothing is more probable than what was taken.
      if (*count > 0) CHECK(token.logprobs->top[0] == std::pair(token.id, token.logprobs->own));
    }
  }
}

TEST_CASE("a stop id ends the answer and is its last token") {
  const auto actor = start(tiny_options());
  Job job = greedy_job(golden().tokens, 0);
  job.stop_ids = {golden().greedy[3]};
  Asker asker;
  REQUIRE(asker.submit(*actor, job).has_value());
  asker.wait();
  REQUIRE(asker.finished() != nullptr);
  CHECK(asker.finished()->reason == FinishReason::stop);
  CHECK(asker.tokens() == Ids(golden().greedy.begin(), golden().greedy.begin() + 4));
}

TEST_CASE("the mini model answers as its reference does") {
  ModelOptions options = tiny_options();
  options.directory = K3_SOURCE_DIR "/tools/mini/model";
  options.chunk = 64;
  options.expert_gb = -1;
  const auto actor = start(options);
  std::ifstream file(K3_TEST_DATA "/mini_transcripts.jsonl");
  int tried = 0;
  for (std::string line; tried < 3 && std::getline(file, line);) {
    const json::Value value = json::parse(line).value();
    const Ids prompt = id_list(*value.find("prompt_ids")), answer = id_list(*value.find("generated_ids"));
    // A narrow margin may fall differently in another precision; those are for the forward tests' tolerances.
    if (value.find("min_margin")->as_double().value() < 1 || answer.size() > 40) continue;
    ++tried;
    Job job = greedy_job(prompt, 0);
    job.stop_ids = {answer.back()};
    Asker asker;
    REQUIRE(asker.submit(*actor, job).has_value());
    asker.wait();
    CHECK(asker.tokens() == answer);
  }
  CHECK(tried == 3);
}

TEST_CASE("thinking ends at its budget or on demand, and an answer is held to its form at any temperature") {
  ModelOptions options = tiny_options();
  options.directory = K3_SOURCE_DIR "/tools/mini/model";
  options.expert_gb = -1;
  const auto actor = start(options);
  const auto tokenizer = text::Tokenizer::load(options.directory).value();
  const auto ids = [&](std::string_view text) { return tokenizer.encode(text, true).value(); };
  const Ids prompt =
      ids("<|open|>message role=\"user\"<|sep|>What is 48+75?<|close|>message<|sep|><|end_of_msg|>"
          "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>");
  Job job = greedy_job(prompt, 60);
  job.stop_ids = {tokenizer.control().end_of_message};
  job.form.thinking = generation::thinking_end(tokenizer);
  job.form.thinking_budget = 3;
  Asker asker;
  REQUIRE(asker.submit(*actor, job).has_value());
  const Ids answer = asker.wait().tokens();
  const Ids& end = job.form.thinking->ids;
  REQUIRE(answer.size() > 3 + end.size());
  CHECK(std::equal(end.begin(), end.end(), answer.begin() + 3));

  job.form.thinking_budget.reset();
  Asker stopped;
  stopped.ticket().end_thinking();
  REQUIRE(stopped.submit(*actor, job).has_value());
  const Ids at_once = stopped.wait().tokens();
  REQUIRE(at_once.size() > end.size());
  CHECK(std::equal(end.begin(), end.end(), at_once.begin()));

  const auto body = json::parse(R"({"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema",)"
                                R"("json_schema":{"name":"n","schema":{"type":"array","items":{"enum":["a",7]},"maxItems":5}}}})");
  job.form.grammar = generation::answer_grammar(text::read_chat_request(*body).value(), tokenizer.control()).value();
  job.form.trie = grammar::TokenTrie::of(tokenizer);
  job.form.thinking_budget = 5;
  job.sampling.temperature = 2;
  job.max_tokens = 100;
  for (job.sampling.seed = 0; job.sampling.seed < 5; ++job.sampling.seed) {
    Asker bound;
    REQUIRE(bound.submit(*actor, job).has_value());
    const std::string text = tokenizer.decode(bound.wait().tokens());
    INFO(text);
    REQUIRE(bound.finished() != nullptr);
    CHECK(bound.finished()->reason == FinishReason::stop);
    const std::string opener = "<|open|>response<|sep|>";
    const std::size_t begin = text.find(opener) + opener.size();
    CHECK(json::parse(text.substr(begin, text.find("<|close|>response") - begin)).has_value());
  }
}

TEST_CASE("a conversation continued from its live state gives what it gives from scratch") {
  const auto& tokens = golden().tokens;
  for (const float temperature : {0.0F, 1.0F}) {
    const auto ask = [&](Actor& actor, const Ids& prompt) {
      Job job = greedy_job(prompt, 6);
      job.sampling.temperature = temperature;
      job.sampling.seed = 17;
      auto asker = std::make_unique<Asker>();
      REQUIRE(asker->submit(actor, job).has_value());
      asker->wait();
      REQUIRE(asker->finished() != nullptr);
      return asker;
    };
    const auto warm = start(tiny_options());
    Ids prompt(tokens.begin(), tokens.begin() + 20);
    const Ids first = ask(*warm, prompt)->tokens();
    prompt.insert(prompt.end(), first.begin(), first.end());
    prompt.insert(prompt.end(), tokens.begin() + 20, tokens.begin() + 30);
    const auto continued = ask(*warm, prompt);
    CHECK(continued->finished()->cached_tokens == 20 + 5);  // the last token was sampled and never fed
    CHECK(continued->all<Prefill>().front().done == 25);
    CHECK(continued->all<Prefill>().back().done == prompt.size());
    const auto fresh = start(tiny_options());
    const auto scratch = ask(*fresh, prompt);
    CHECK(scratch->finished()->cached_tokens == 0);
    CHECK(continued->tokens() == scratch->tokens());
    // Exactly the committed ids: there is no token left to compute logits from, so it starts over.
    Ids same = prompt;
    const Ids answer = continued->tokens();
    same.insert(same.end(), answer.begin(), answer.end());
    same.resize(prompt.size() + 5);
    const auto again = ask(*warm, same);
    CHECK(again->finished()->cached_tokens == 0);
    CHECK(again->tokens() == ask(*fresh, same)->tokens());
  }
}

TEST_CASE("a side request between two turns does not cost the conversation its state") {
  const auto actor = start(tiny_options());
  const auto& tokens = golden().tokens;
  const Ids turn(tokens.begin(), tokens.begin() + 12), side(tokens.begin() + 20, tokens.begin() + 30);
  generate(*actor, turn, 1);
  generate(*actor, side, 1);
  Asker asker;
  REQUIRE(asker.submit(*actor, greedy_job(tokens, 2)).has_value());
  asker.wait();
  REQUIRE(asker.finished() != nullptr);
  CHECK(asker.finished()->cached_tokens == 12);
  CHECK(asker.tokens() == Ids(golden().greedy.begin(), golden().greedy.begin() + 2));
}

TEST_CASE("ids run outside the actor: logits and running sums do not depend on the chunking") {
  const auto model = load_model(tiny_options()).value();
  const auto& config = model->checkpoint.config();
  const auto& tokens = golden().tokens;
  std::vector<RunIdsResult> runs;
  for (const std::size_t chunk : {1, 9, 0}) {
    RunIdsOptions options;
    options.chunk = chunk;
    options.want_hidden = true;
    runs.push_back(run_ids(*model, tokens, options).value());
    const auto& run = runs.back();
    REQUIRE(run.logits.size() == tokens.size() * config.vocabulary);
    REQUIRE(run.hidden.size() == config.layers * tokens.size() * config.hidden);
    CHECK(std::memcmp(run.logits.data(), runs[0].logits.data(), run.logits.size() * sizeof(float)) == 0);
    CHECK(std::memcmp(run.hidden.data(), runs[0].hidden.data(), run.hidden.size() * sizeof(float)) == 0);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto row = runs[0].logits.begin() + static_cast<std::ptrdiff_t>(i * config.vocabulary);
    CHECK(std::max_element(row, row + static_cast<std::ptrdiff_t>(config.vocabulary)) - row == golden().argmax[i]);
  }
  CHECK(run_ids(*model, {}, {}).error().code == ErrorCode::invalid_argument);
  CHECK(run_ids(*model, Ids{512}, {}).error().got == "512");
  RunIdsOptions stopped;
  std::stop_source stop;
  stop.request_stop();
  stopped.stop = stop.get_token();
  CHECK(run_ids(*model, tokens, stopped).error().code == ErrorCode::cancelled);
}
