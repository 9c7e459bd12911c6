#include "server/run_board.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace k3::server {
namespace {

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

RunBoard::RunBoard(App& app) : app_(app), timer_(*app.io) {}

std::shared_ptr<SharedRun> RunBoard::find(const RunIdentity& identity) const {
  if (!identity.resend) return nullptr;
  const auto found = std::find_if(runs_.begin(), runs_.end(), [&](const auto& run) { return run->joinable(identity); });
  return found == runs_.end() ? nullptr : *found;
}

std::shared_ptr<SharedRun> RunBoard::with_id(std::string_view id, std::string_view key) const {
  const auto named = [&](const auto& run) { return !run->over() && id.ends_with(run->id_digits()) && run->key() == key; };
  const auto found = std::find_if(runs_.begin(), runs_.end(), named);
  return found == runs_.end() ? nullptr : *found;
}

bool RunBoard::at_limit(const RunIdentity& identity) const {
  if (identity.key.empty()) return false;
  const auto same = [&](const auto& run) { return !run->over() && run->key() == identity.key; };
  return static_cast<std::size_t>(std::count_if(runs_.begin(), runs_.end(), same)) >= app_.options.limits.answers_per_key;
}

Result<std::shared_ptr<SharedRun>> RunBoard::begin(RunIdentity identity, Job job) {
  auto run = std::make_shared<SharedRun>(app_, std::move(identity), job);
  const auto submitted = run->submit(std::move(job));
  if (!submitted) return submitted.error();
  runs_.push_back(run);
  return run;
}

void RunBoard::forget(const SharedRun& run) {
  const auto found = std::find_if(runs_.begin(), runs_.end(), [&](const auto& one) { return one.get() == &run; });
  if (found != runs_.end()) runs_.erase(found);
}

void RunBoard::look_at_clock() {
  const auto now = app_.now();
  std::erase_if(runs_, [now](const auto& run) { return run->nobody_left(now); });
  std::optional<Clock::time_point> next;
  for (const auto& run : runs_) {
    if (const auto grace = run->grace(); grace && (!next || *grace < *next)) next = grace;
  }
  if (!next) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(*next - now);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) look_at_clock();
  });
}

void RunBoard::expect_nobody() {
  std::erase_if(runs_, [](const auto& run) { return run->grace().has_value(); });
  timer_.cancel();
}

std::optional<double> RunBoard::seconds_left(const SharedRun& run) const {
  if (run.over()) return 0;
  const double step = seconds(run.since_last_step());  // what has been spent on what is not counted yet
  double left = 0;
  const std::size_t prompt = run.tokens() > 0 ? 0 : run.prefill().total - std::min(run.prefill().done, run.prefill().total);
  if (prompt > 0) {
    const auto reading = prompt_pace_.seconds(prompt, app_.model->info().step_rows, token_pace_.seconds_each());
    if (!reading) return std::nullopt;
    left += std::max(*reading - step, 0.0);
  }
  const auto each = token_pace_.seconds_each();
  if (!each || !answer_tokens_) return std::nullopt;
  // An answer that is longer than most will go on for a while.
  const auto said = static_cast<double>(run.tokens());
  const double most = std::max(static_cast<double>(run.max_tokens()) - said, 0.0);
  left += *each * std::min(std::max(*answer_tokens_ - said, *answer_tokens_ / 4), most);
  return run.tokens() > 0 ? std::max(left - std::min(step, *each), 0.0) : left;
}

std::optional<double> RunBoard::seconds_until_turn(const SharedRun& run) const {
  std::vector<double> free_in(app_.model->info().parallel, 0.0);  // of each place at the model, when it comes free
  for (const auto& other : runs_) {
    const auto soonest = std::min_element(free_in.begin(), free_in.end());
    if (other.get() == &run) return *soonest;
    const auto left = seconds_left(*other);
    if (!left) return std::nullopt;
    *soonest += *left;
  }
  return *std::min_element(free_in.begin(), free_in.end());
}

std::int64_t RunBoard::retry_after() const {
  std::size_t running = 0;
  double wait = std::numeric_limits<double>::infinity();
  for (const auto& run : runs_) {
    if (run->over()) continue;
    if (running++ == app_.model->info().parallel) break;
    wait = std::min(wait, seconds_left(*run).value_or(seconds(app_.now() - run->submitted())));
  }
  if (running == 0) wait = 0;
  return std::clamp<std::int64_t>(std::llround(std::ceil(wait)), 2, 3600);
}

void RunBoard::note_length(std::size_t tokens) {
  const auto length = static_cast<double>(tokens);
  answer_tokens_ = answer_tokens_ ? 0.8 * *answer_tokens_ + 0.2 * length : length;
}

}  // namespace k3::server
