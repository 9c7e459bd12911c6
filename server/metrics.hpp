// What the server counts for GET /metrics. Touched only by the server's thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string_view>

namespace k3::server {

// Of seconds. A token takes seconds here and an answer hours, so the bounds go that far.
class Histogram {
 public:
  static constexpr std::array bounds{0.01, 0.1,   0.25,  0.5,   1.0,    2.5,    5.0,    10.0,   30.0,
                                     60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0};

  void observe(double seconds);
  // [bounds + 1]: how many fell below each bound and not below the one before; the last: above all.
  const std::array<std::uint64_t, bounds.size() + 1>& counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  std::array<std::uint64_t, bounds.size() + 1> counts_{};
  double sum_ = 0;
};

enum class Stage : std::uint8_t { queued, prefill, decode };
inline constexpr std::array<std::string_view, 3> kStageNames{"queued", "prefill", "decode"};

struct Metrics {
  // Labels come from our own few words, never from what a client sends: their number stays small.
  struct Answered {
    std::string_view endpoint;
    unsigned status = 0;      // 0: the client left before it had one
    std::string_view finish;  // finish reason or why there is none
    friend auto operator<=>(const Answered&, const Answered&) = default;
  };
  std::map<Answered, std::uint64_t> requests;
  std::array<std::size_t, 3> in_stage{};  // answers under way
  std::array<std::uint64_t, 3> left{};    // by their clients
  Histogram queue_wait, first_token, between_tokens, whole_answer;
  std::uint64_t pings = 0, connections_refused = 0;
};

// An answer under way, counted in the stage it is in for as long as this lives.
class InStage {
 public:
  explicit InStage(Metrics& metrics) : metrics_(metrics) { ++metrics_.in_stage[index()]; }
  ~InStage() { --metrics_.in_stage[index()]; }
  InStage(const InStage&) = delete;
  InStage& operator=(const InStage&) = delete;

  void enter(Stage stage) {
    --metrics_.in_stage[index()];
    stage_ = stage;
    ++metrics_.in_stage[index()];
  }
  void client_left() { ++metrics_.left[index()]; }

 private:
  std::size_t index() const { return static_cast<std::size_t>(stage_); }

  Metrics& metrics_;
  Stage stage_ = Stage::queued;
};

}  // namespace k3::server
