// Where the time of steps goes, layer by layer.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace k3::layers {

struct LayerTimes {
  // Before a layer's experts are known, and what needs none: mix, norm, attention, router, dense layer; in the last layer the head.
  std::chrono::nanoseconds serial{};
  // What can be computed while experts travel: latent projections, shared experts, those experts that are there.
  std::chrono::nanoseconds overlapped{};
  std::chrono::nanoseconds waiting{};  // with nothing left to compute before the next expert comes
  std::uint64_t experts_read = 0;      // that had not been in memory

  LayerTimes& operator+=(const LayerTimes& other);
};

// A stopwatch that is always in one phase of one layer. Steps add up; who wants a stretch of them takes the difference.
class StepTimes {
 public:
  using Clock = std::chrono::steady_clock::time_point (*)();
  enum class Phase : std::uint8_t { serial, overlapped, waiting };

  explicit StepTimes(Clock clock = std::chrono::steady_clock::now) : clock_(clock) {}

  void begin(std::size_t layers);  // a step begins: serial work of layer 0
  void layer(std::size_t layer);   // serial work of this layer
  void enter(Phase phase);
  Phase phase() const { return phase_; }
  void read(std::uint64_t experts) { layers_[layer_].experts_read += experts; }
  void end();  // what follows until begin() is nobody's

  const std::vector<LayerTimes>& layers() const { return layers_; }

 private:
  void pass();

  Clock clock_;
  std::chrono::steady_clock::time_point since_;
  std::size_t layer_ = 0;
  Phase phase_ = Phase::serial;
  std::vector<LayerTimes> layers_;
};

}  // namespace k3::layers
