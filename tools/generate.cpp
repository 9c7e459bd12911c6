// `k3 generate`: one completion of a text, of ids, or of a chat request.
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "tools/command.hpp"
#include "tools/common_flags.hpp"
#include "tools/input_output.hpp"
#include "tools/message_json.hpp"
#include "tools/request_file.hpp"
#include "tools/screen.hpp"
#include "tools/session.hpp"
#include "tools/thinking_flags.hpp"

namespace k3::cli {
namespace {

// A bare text has no end the model would know of; a chat answer ends by itself.
constexpr std::size_t default_text_tokens = 128;

struct Flags {
  EngineFlags engine;
  SamplingFlags sampling;
  ThinkFlag think;
  BudgetFlag budget;
  std::string prompt, prompt_file, ids, messages;
  std::size_t max_tokens = 0;
  bool json = false;
};

struct Prepared {
  std::vector<text::TokenId> ids;
  generation::AnswerOptions answer;
  generation::AnswerForm form;
  generation::Sampling sampling;
  std::size_t max_tokens = 0;  // 0: no limit but the context's
};

Result<Prepared> prepare_chat(const Flags& flags, const text::Tokenizer& tokenizer) {
  auto request = read_request_file(flags.messages, tokenizer);
  if (request.has_error()) return request.error();
  for (const std::string& warning : request->warnings)
    std::fprintf(stderr, "k3: warning: %s: %s\n", flags.messages.c_str(), warning.c_str());
  apply_think(flags.think, request->chat);
  auto ids = prompt_of(tokenizer, request->chat);
  if (ids.has_error()) return ids.error();
  auto form = form_of(tokenizer, request->chat);
  if (form.has_error()) return form.error();
  Prepared out;
  out.form = std::move(form).value();
  out.form.thinking_budget = flags.budget.tokens ? flags.budget.tokens : request->thinking_budget;
  out.ids = std::move(ids).value();
  out.answer.thinking = request->chat.thinking;
  out.answer.stops = std::move(request->stops);
  out.answer.first_call_index = calls_in(request->chat);
  out.sampling = sampling(flags.sampling, std::move(request->sampling));
  out.max_tokens = flags.max_tokens != 0 ? flags.max_tokens : request->max_tokens.value_or(0);
  return out;
}

Result<Prepared> prepare(const Flags& flags, const text::Tokenizer& tokenizer) {
  if (!flags.messages.empty()) return prepare_chat(flags, tokenizer);
  Prepared out;
  out.answer.plain = true;
  out.sampling = sampling(flags.sampling);
  out.max_tokens = flags.max_tokens != 0 ? flags.max_tokens : default_text_tokens;
  Result<std::vector<text::TokenId>> ids = std::vector<text::TokenId>{};
  if (!flags.ids.empty()) {
    ids = parse_ids(flags.ids);
  } else {
    auto text = flags.prompt_file.empty() ? Result<std::string>(flags.prompt) : read_all(flags.prompt_file);
    if (text.has_error()) return text.error();
    ids = tokenizer.encode(*text, false);
  }
  if (ids.has_error()) return ids.error();
  if (ids->empty())
    return fail(ErrorCode::invalid_argument, "the prompt is empty: the model needs at least one token to start from");
  out.ids = std::move(ids).value();
  return out;
}

void write_drive_use(json::Writer& writer, const std::string& stage, const DriveUse& drive, std::size_t tokens) {
  const double per_token = tokens == 0 ? 0.0 : static_cast<double>(drive.bytes()) / static_cast<double>(tokens);
  writer.key(stage + "_read_bytes").integer(static_cast<std::int64_t>(drive.bytes()));
  writer.key(stage + "_read_bytes_per_token").number(per_token);
  writer.key(stage + "_expert_hit_rate").number(drive.expert_hit_rate());
  writer.key(stage + "_expert_wait_s").number(drive.expert_wait_s);
  writer.key(stage + "_trunk_wait_s").number(drive.trunk_wait_s);
}

void write_timings(json::Writer& writer, std::size_t prompt, const Turn& turn) {
  const Finished& finished = turn.finished;
  const Timings& timings = finished.timings;
  writer.begin_object();
  writer.key("queued_s").number(timings.queued_s);
  writer.key("prefill_s").number(timings.prefill_s);
  writer.key("decode_s").number(timings.decode_s);
  writer.key("prompt_tokens").integer(static_cast<std::int64_t>(prompt));
  writer.key("cached_tokens").integer(static_cast<std::int64_t>(finished.cached_tokens));
  writer.key("output_tokens").integer(static_cast<std::int64_t>(turn.ids.size()));
  write_drive_use(writer, "prefill", timings.prefill, prompt - finished.cached_tokens);
  // The last token is written and not read.
  write_drive_use(writer, "decode", timings.decode, turn.ids.size() - std::min<std::size_t>(turn.ids.size(), 1));
  writer.key("read_bytes").integer(static_cast<std::int64_t>(timings.prefill.bytes() + timings.decode.bytes()));
  writer.end_object();
}

std::string as_json(const Prepared& prepared, const Turn& turn, const generation::Answer& answer) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("prompt_ids");
  write_ids(writer, prepared.ids);
  writer.key("ids");
  write_ids(writer, turn.ids);
  writer.key("text").string(answer.message().content);
  if (!prepared.answer.plain) write_message(writer, answer.message());
  writer.key("finish_reason").string(answer.finish_reason());
  writer.key("timings");
  write_timings(writer, prepared.ids.size(), turn);
  writer.end_object();
  return out + "\n";
}

int generate(const Flags& flags) {
  const Wakeup wakeup;  // outlives the model, whose thread may still be waking it when the turn is over
  // Before the model loads, which may take minutes: is the prompt any good?
  auto tokenizer = load_tokenizer(flags.engine.model);
  if (tokenizer.has_error()) return report(tokenizer.error());
  auto prepared = prepare(flags, *tokenizer);
  if (prepared.has_error()) return report(prepared.error());
  auto session = open_session(flags.engine);
  if (session.has_error()) return report(session.error());

  generation::Answer answer(*session->tokenizer, prepared->answer);
  Screen screen;
  TurnWatcher watcher;
  if (!flags.json) {
    watcher.event = [&](const Event& event) { screen.event(event); };
    watcher.delta = [&](const text::Delta& delta) { screen.delta(delta); };
  }
  Job job = make_job(*session->tokenizer, prepared->ids, prepared->sampling, prepared->max_tokens);
  job.form = prepared->form;
  auto turn = run_turn(*session->model, std::move(job), answer, wakeup, watcher);
  if (!flags.json) screen.end();
  if (turn.has_error()) return report(turn.error());
  // A text has no end of its own, so nothing is cut off where its limit ends it.
  if (!prepared->answer.plain) say_if_cut(answer);
  if (flags.json) {
    auto written = write_out(as_json(*prepared, *turn, answer));
    return written.has_error() ? report(written.error()) : exit_ok;
  }
  return screen.broken() ? report("cannot write the output") : exit_ok;
}

}  // namespace

void add_generate(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("generate", "one completion of a text, of token ids, or of a chat request");
  add_engine_flags(*command, flags->engine);
  CLI::Option_group* input = command->add_option_group("Input", "exactly one of");
  input->add_option("--prompt", flags->prompt, "text to continue");
  input->add_option("--prompt-file", flags->prompt_file, "a file with the text; - is standard input");
  input->add_option("--ids", flags->ids, "token ids to continue, such as 12,7,1541");
  input->add_option("--messages", flags->messages, "a file with a chat request (JSON), or only its messages; - is standard input");
  input->require_option(1);
  command->add_option("--max-tokens", flags->max_tokens, "stop after so many; default: 128 after a text, no limit after a chat")
      ->check(whole_number(1, 1U << 20));
  add_sampling_flags(*command, flags->sampling);
  add_think_flag(*command, flags->think);
  add_budget_flag(*command, flags->budget);
  add_switch(*command, "--json", flags->json, "print one object with prompt_ids, ids, text, finish_reason and timings");
  command->footer(
      "A chat request may say what it would say to the server (temperature, max_tokens, stop, tools, ...); flags win over it.\n"
      "Examples:\n"
      "  k3 generate bundled --prompt 'The capital of France is' --temperature 0\n"
      "  echo '[{\"role\":\"user\",\"content\":\"What is 12+30?\"}]' | k3 generate bundled --messages - --temperature 0");
  command->callback([flags, &chosen] {
    check_ids(flags->ids);
    if (flags->budget.tokens && flags->messages.empty()) throw usage_error("--reasoning-budget has no effect without --messages");
    check_budget(flags->think, flags->budget);
    if (!flags->think.value.empty() && flags->messages.empty()) {
      if (std::getenv("K3_THINK") == nullptr) throw usage_error("--think has no effect without --messages");
      std::fputs("k3: warning: K3_THINK is set and has no effect on `k3 generate` without --messages\n", stderr);
    }
    chosen = [flags] { return generate(*flags); };
  });
}

}  // namespace k3::cli
