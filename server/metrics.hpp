// What the server counts for GET /metrics. Touched only by the server's thread.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>

namespace k3::server {

// The process as its operating system sees it.
struct ProcessUse {
  double cpu_seconds = 0, start_time = 0;  // of the processor; of Unix time
  std::uint64_t resident_bytes = 0, virtual_bytes = 0, open_files = 0, most_files = 0, threads = 0;
};
ProcessUse process_use();

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
enum class Channel : std::uint8_t { think, response, tool };
inline constexpr std::array<std::string_view, 3> kChannelNames{"think", "response", "tool"};

class InStage;

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
  std::array<std::uint64_t, 3> written{};  // tokens, by channel
  std::uint64_t pings = 0, backpressure_drops = 0, connections_refused = 0, accept_failures = 0, handshakes_failed = 0;
  std::list<const InStage*> answers;  // under way, the oldest first
};

// An answer under way, counted in the stage it is in for as long as this lives.
class InStage {
 public:
  // `id`: of the request, for GET /slots; `prompt`: its tokens.
  InStage(Metrics& metrics, std::string id, std::size_t prompt)
      : prompt_tokens(prompt),
        metrics_(metrics),
        id_(std::move(id)),
        place_(metrics_.answers.insert(metrics_.answers.end(), this)) {
    ++metrics_.in_stage[index()];
  }
  ~InStage() {
    --metrics_.in_stage[index()];
    metrics_.answers.erase(place_);
  }
  InStage(const InStage&) = delete;
  InStage& operator=(const InStage&) = delete;

  void enter(Stage stage) {
    --metrics_.in_stage[index()];
    stage_ = stage;
    ++metrics_.in_stage[index()];
  }
  void client_left() { ++metrics_.left[index()]; }
  // One more token of the answer; `counts` unless another client of the same run has counted it.
  void wrote(Channel channel, bool counts) {
    if (counts) ++metrics_.written[static_cast<std::size_t>(channel)];
    ++output_tokens;
  }

  Stage stage() const { return stage_; }
  const std::string& id() const { return id_; }
  double age() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }
  std::size_t position = 0;  // in the queue
  std::size_t prompt_tokens, prompt_done = 0, prompt_cached = 0, output_tokens = 0;

 private:
  std::size_t index() const { return static_cast<std::size_t>(stage_); }

  Metrics& metrics_;
  std::string id_;
  std::list<const InStage*>::iterator place_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  Stage stage_ = Stage::queued;
};

}  // namespace k3::server
