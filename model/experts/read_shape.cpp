#include "model/experts/read_shape.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "model/experts/drive_meter.hpp"
#include "model/experts/windows.hpp"

namespace k3::experts {

namespace {

constexpr ReadShape plain{};
// Drives that answer large reads in pieces of their own gain nothing from these; some virtual and networked ones do.
constexpr std::array others{ReadShape{8, std::uint64_t{4} << 20}, ReadShape{32, std::uint64_t{1} << 20}};
constexpr int turns = 3;
constexpr double turn_seconds = 0.1;

// No drive needs more whole experts under way than this to be busy, and each takes its size in memory while it is measured.
constexpr std::uint64_t whole_at_once = 8;

struct Turns {
  double slowest = 0, fastest = 0;
  void add(double speed) {
    slowest = fastest == 0 ? speed : std::min(slowest, speed);
    fastest = std::max(fastest, speed);
  }
};

}  // namespace

std::string describe(const ReadShape& shape) {
  if (shape.bytes == 0) return fmt::format("whole, up to {} at a time", shape.depth);
  return fmt::format("{:.0f} MB at a time, up to {}", static_cast<double>(shape.bytes) / (1 << 20), shape.depth);
}

ReadShape choose_read_shape(const MeasureShape& measure) {
  Turns of_plain;
  std::array<Turns, others.size()> of_others;
  for (int turn = 0; turn < turns; ++turn) {
    const Result<double> whole = measure(plain);
    if (whole.has_error()) return plain;
    of_plain.add(*whole);
    for (std::size_t i = 0; i < others.size(); ++i) {
      const Result<double> pieces = measure(others[i]);
      if (pieces.has_error()) return plain;
      of_others[i].add(*pieces);
    }
  }
  const auto best =
      std::max_element(of_others.begin(), of_others.end(), [](const Turns& a, const Turns& b) { return a.slowest < b.slowest; });
  return best->slowest > of_plain.fastest ? others[static_cast<std::size_t>(best - of_others.begin())] : plain;
}

ReadShape measure_read_shape(const checkpoint::Checkpoint& checkpoint, std::uint64_t memory) {
  auto meter = DriveMeter::open(checkpoint.files());
  if (meter.has_error()) return plain;
  const std::uint64_t expert = std::max<std::uint64_t>(kAlignment, align_down(checkpoint.expert_bytes()));
  std::string speeds;
  const auto measure = [&](const ReadShape& shape) -> Result<double> {
    const std::uint64_t block = shape.bytes == 0 ? expert : std::min(shape.bytes, expert);
    const std::uint64_t most = shape.bytes == 0 ? whole_at_once : shape.depth;
    auto speed = meter->run(static_cast<unsigned>(std::clamp<std::uint64_t>(memory / block, 1, most)), block, turn_seconds);
    if (speed.has_value()) speeds += fmt::format("{}{:.2f}", speeds.empty() ? "" : ", ", *speed / 1e9);
    return speed;
  };
  const ReadShape shape = choose_read_shape(measure);
  spdlog::info("experts are read {}; measured whole, 4 MB and 1 MB pieces in turn: {} GB/s", describe(shape), speeds);
  return shape;
}

}  // namespace k3::experts
