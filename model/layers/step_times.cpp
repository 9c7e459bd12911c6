#include "model/layers/step_times.hpp"

namespace k3::layers {

LayerTimes& LayerTimes::operator+=(const LayerTimes& other) {
  serial += other.serial;
  overlapped += other.overlapped;
  waiting += other.waiting;
  experts_read += other.experts_read;
  return *this;
}

void StepTimes::begin(std::size_t layers) {
  if (layers_.size() < layers) layers_.resize(layers);
  since_ = clock_();
  layer_ = 0;
  phase_ = Phase::serial;
}

void StepTimes::layer(std::size_t layer) {
  pass();
  layer_ = layer;
  phase_ = Phase::serial;
}

void StepTimes::enter(Phase phase) {
  if (phase == phase_) return;
  pass();
  phase_ = phase;
}

void StepTimes::end() { pass(); }

void StepTimes::pass() {
  const auto now = clock_();
  LayerTimes& times = layers_[layer_];
  const std::chrono::nanoseconds passed = now - since_;
  switch (phase_) {
    case Phase::serial:
      times.serial += passed;
      break;
    case Phase::overlapped:
      times.overlapped += passed;
      break;
    case Phase::waiting:
      times.waiting += passed;
      break;
  }
  since_ = now;
}

}  // namespace k3::layers
