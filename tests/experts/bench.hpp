// A stream over a scripted disk.
#pragma once

#include "tests/experts/fixture.hpp"
#include "tests/experts/scripted_reader.hpp"

namespace k3::experts::test {

struct Bench {
  World world;
  asio::io_context context{1};
  ScriptedReader* disk = nullptr;
  std::unique_ptr<ExpertStream> stream;

  explicit Bench(std::size_t slots, Placement placement = Placement::together, unsigned depth = 32, unsigned drives = 1,
                 std::uint64_t read_bytes = 0)
      : world(placement) {
    while (world.layout.files[0].more.size() + 1 < drives) world.add_drive();
    StreamOptions options;
    options.budget_bytes = slots * world.slot_bytes();
    options.direct = false;
    options.shape = {depth, read_bytes};
    const ReaderFactory factory = [this](const ReaderSetup&) -> Result<std::unique_ptr<Reader>> {
      auto reader = std::make_unique<ScriptedReader>();
      disk = reader.get();
      return std::unique_ptr<Reader>(std::move(reader));
    };
    stream = open_stream(world.layout, context, options, factory).value();
    REQUIRE(stream->slots() == slots);
  }

  bool good(ExpertKey key) {
    const auto lease = get(context, *stream, key);
    return lease && world.holds(lease->bytes(), key);
  }
  void begin(ExpertKey key, Pending& pending) {
    start(context, *stream, key, pending);
    settle(context);
  }
};

inline constexpr ExpertKey kA{1, 0}, kB{1, 1}, kC{1, 2}, kD{2, 0};

}  // namespace k3::experts::test
