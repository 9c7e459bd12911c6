#include "server/pace.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace k3::server {
namespace {

double in_seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Of steps of a like size about the last three count: the machine may have become busier, or the experts warmer.
constexpr double keep_of_kind = 0.7;

struct Point {
  double tokens, seconds;  // logarithms
};

// Beyond what was seen a line through the outermost two goes on; but a step never grows faster than its rows, nor slower than their
// root (the noise of two neighbours would else decide).
double beyond(const Point& from, const std::optional<Point>& inner, double tokens) {
  double slope = tokens > from.tokens ? 1 : 0.5;
  if (inner) slope = std::clamp((from.seconds - inner->seconds) / (from.tokens - inner->tokens), 0.5, 1.0);
  return from.seconds + slope * (tokens - from.tokens);
}

}  // namespace

void Pace::add(std::size_t count, std::chrono::steady_clock::duration took) {
  const auto number = static_cast<double>(count);
  const double keep = std::exp(-number / memory_);
  count_ = count_ * keep + number;
  seconds_ = seconds_ * keep + in_seconds(took);
}

std::optional<double> Pace::seconds_each() const {
  if (!(seconds_ > 0)) return std::nullopt;
  return seconds_ / count_;
}

void PromptPace::add(std::size_t tokens, std::size_t rows, std::chrono::steady_clock::duration took) {
  if (tokens == 0 || took <= took.zero()) return;
  // Several steps may lie between two reports.
  const std::size_t steps = (tokens + rows - 1) / rows;
  const auto each = static_cast<double>(tokens) / static_cast<double>(steps);
  Kind& kind = kinds_[static_cast<std::size_t>(std::bit_width(static_cast<std::size_t>(each)))];
  kind.weight = kind.weight * keep_of_kind + 1;
  kind.tokens = kind.tokens * keep_of_kind + std::log(each);
  kind.seconds = kind.seconds * keep_of_kind + std::log(in_seconds(took) / static_cast<double>(steps));
}

std::optional<double> PromptPace::step_seconds(double tokens, std::optional<double> token) const {
  const double wanted = std::log(tokens);
  std::optional<Point> below, above, below_that, above_that;  // the nearest two on each side
  const auto meet = [&](const Point& point) {
    if (point.tokens <= wanted) {
      below_that = below;
      below = point;
    } else if (!above) {
      above = point;
    } else if (!above_that) {
      above_that = point;
    }
  };
  if (token && kinds_[1].weight == 0) meet({0, std::log(*token)});
  for (const Kind& kind : kinds_) {
    if (kind.weight > 0) meet({kind.tokens / kind.weight, kind.seconds / kind.weight});
  }
  if (!below && !above) return std::nullopt;
  if (!below) return std::exp(beyond(*above, above_that, wanted));
  if (!above) return std::exp(beyond(*below, below_that, wanted));
  const double share = (wanted - below->tokens) / (above->tokens - below->tokens);
  return std::exp(below->seconds + share * (above->seconds - below->seconds));
}

std::optional<double> PromptPace::seconds(std::size_t tokens, std::size_t rows, std::optional<double> token) const {
  if (tokens == 0) return 0;
  const std::size_t whole = tokens / rows, rest = tokens % rows;
  double sum = 0;
  if (whole > 0) {
    const auto step = step_seconds(static_cast<double>(rows), token);
    if (!step) return std::nullopt;
    sum += static_cast<double>(whole) * *step;
  }
  if (rest == 0) return sum;
  const auto step = step_seconds(static_cast<double>(rest), token);
  if (!step) return std::nullopt;
  return sum + *step;
}

}  // namespace k3::server
