// Blocks of matrices that stay on the drive: the right bytes, ahead of time, whatever is asked for and however the drive behaves.
#include "model/trunk/trunk_stream.hpp"

#include <cstring>

#include "tests/experts/fixture.hpp"
#include "tests/experts/scripted_reader.hpp"

using namespace k3;
using experts::test::Fate;
using experts::test::ScriptedReader;
using trunk::TrunkStream;

namespace {

std::uint8_t byte_at(std::uint64_t offset) { return static_cast<std::uint8_t>(offset * 7 + (offset >> 8) * 13); }

// Matrices of 64-row blocks (the last one of each may be shorter) in two files.
struct World {
  experts::test::TemporaryDirectory directory;
  std::vector<checkpoint::File> files;
  std::vector<checkpoint::StreamedMatrix> matrices{
      {0, 77, 10, 300, "a"}, {1, 5000, 33, 64, "b"}, {0, 77 + 3000, 20, 65, "c"}, {1, 9001, 10, 640, "d"}};
  ScriptedReader* reader = nullptr;

  World() {
    for (const std::uint64_t bytes : {77 + 3000 + 1300, 9001 + 6400}) {
      const auto path = directory.path() / ("shard" + std::to_string(files.size()));
      std::string content(bytes, 0);
      for (std::uint64_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(byte_at(i));
      std::ofstream(path, std::ios::binary) << content;
      files.push_back({path, bytes});
    }
  }
  std::unique_ptr<TrunkStream> open(std::size_t slots, bool scripted = true) {
    trunk::TrunkStreamOptions options;
    options.block_bytes = 640;
    options.direct = false;
    options.window_bytes = slots * 2 * experts::kAlignment;  // 64 rows of 33 bytes, and a sector around them
    const auto make = [&](const experts::ReaderSetup& setup) -> Result<std::unique_ptr<experts::Reader>> {
      if (!scripted) return experts::make_system_reader(setup, experts::StreamOptions::Backend::automatic);
      auto made = std::make_unique<ScriptedReader>();
      reader = made.get();
      return std::unique_ptr<experts::Reader>(std::move(made));
    };
    return TrunkStream::open(files, matrices, options, make).value();
  }
  bool holds(std::size_t matrix, std::size_t block, const trunk::TrunkBlock& got) const {
    const checkpoint::StreamedMatrix& m = matrices[matrix];
    if (got.first != block * 64 || got.rows != std::min<std::size_t>(64, m.rows - got.first)) return false;
    for (std::size_t i = 0; i < got.rows * m.row_bytes; ++i) {
      if (got.data[i] != std::byte{byte_at(m.offset + got.first * m.row_bytes + i)}) return false;
    }
    return true;
  }
  // All blocks in order, as a step asks for them.
  void pass(TrunkStream& stream) const {
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      for (std::size_t b = 0; b < stream.blocks(m); ++b) {
        const auto got = stream.wait(m, b);
        REQUIRE(got.has_value());
        REQUIRE(holds(m, b, *got));
      }
    }
  }
};

}  // namespace

TEST_CASE("each block has its bytes, however small the window") {
  for (const bool scripted : {true, false}) {
    for (const std::size_t slots : {1U, 2U, 3U, 7U, 100U}) {
      World world;
      auto stream = world.open(slots, scripted);
      CHECK(stream->slots() == std::clamp<std::size_t>(slots, 2, 18));
      CHECK(stream->blocks(0) == 5);
      CHECK(stream->blocks(2) == 2);
      for (int step = 0; step < 3; ++step) world.pass(*stream);
    }
  }
}

TEST_CASE("after the first block all others are read ahead, once a step") {
  World world;
  auto stream = world.open(4);
  for (int step = 0; step < 3; ++step) world.pass(*stream);
  CHECK(stream->counters().misses == 1);
  CHECK(world.reader->most_in_flight <= 4);
  // What is ahead at the end belongs to the next step.
  CHECK(stream->counters().reads >= 3 * 18);
  CHECK(stream->counters().reads <= 3 * 18 + 4);
}

TEST_CASE("the window is full while a block is in use") {
  World world;
  auto stream = world.open(4);
  world.reader->held = true;
  REQUIRE(stream->wait(0, 0).has_value());
  REQUIRE(stream->wait(0, 1).has_value());
  // Block 1 is in use; 2 and 3 came with it, 4 is on its way.
  CHECK(world.reader->waiting() == 1);
}

TEST_CASE("whatever is asked for is given, and what comes after it follows") {
  World world;
  std::uint64_t state = 7;
  for (const std::size_t slots : {2U, 5U, 17U, 18U}) {
    auto stream = world.open(slots);
    for (int i = 0; i < 300; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const std::size_t m = (state >> 33) % 4, b = (state >> 40) % stream->blocks(m);
      const auto got = stream->wait(m, b);
      REQUIRE(got.has_value());
      REQUIRE(world.holds(m, b, *got));
    }
    const auto before = stream->counters().misses;
    world.pass(*stream);  // a step cancelled half way, and then a whole one
    CHECK(stream->counters().misses <= before + 1);
  }
}

TEST_CASE("a block that cannot be read is told with its matrix, and can be asked for again") {
  World world;
  auto stream = world.open(3);
  bool broken = true;
  world.reader->fate = [&](const experts::Completion& read) {
    const bool hit = read.file == 1 && read.offset <= 9001 + 640 && read.offset + read.length > 9001 + 640;
    return broken && hit ? Fate{.error = EIO} : Fate{};
  };
  for (std::size_t b = 0; b < 5; ++b) REQUIRE(stream->wait(0, b).has_value());
  for (int i = 0; i < 3; ++i) {
    const auto got = stream->wait(3, 1);
    REQUIRE(got.has_error());
    CHECK(got.error().code == ErrorCode::io);
    CHECK(got.error().message == "cannot read d");
    CHECK(got.error().file == world.files[1].path);
  }
  REQUIRE(stream->wait(0, 2).has_value());
  broken = false;
  const auto got = stream->wait(3, 1);
  REQUIRE(got.has_value());
  CHECK(world.holds(3, 1, *got));
  world.pass(*stream);
}

TEST_CASE("what went wrong while reading ahead is forgotten once the drive is right again") {
  World world;
  auto stream = world.open(18);
  bool broken = true;
  world.reader->fate = [&](const experts::Completion& read) { return broken && read.file == 1 ? Fate{.error = EIO} : Fate{}; };
  for (std::size_t b = 0; b < 5; ++b) REQUIRE(stream->wait(0, b).has_value());
  REQUIRE(stream->wait(1, 0).has_error());
  broken = false;
  for (int step = 0; step < 3; ++step) world.pass(*stream);
}

TEST_CASE("reads that come short or are interrupted go on where they stopped") {
  World world;
  auto stream = world.open(3);
  int count = 0;
  world.reader->fate = [&](const experts::Completion&) {
    ++count;
    return count % 3 == 0 ? Fate{.error = EINTR} : Fate{.at_most = count % 2 == 0 ? 4096U : 100U};
  };
  world.pass(*stream);
}

TEST_CASE("a file that has become shorter is told as such") {
  World world;
  auto stream = world.open(2);
  std::filesystem::resize_file(world.files[1].path, 9100);
  REQUIRE(stream->wait(3, 0).has_error());
  const auto got = stream->wait(3, 5);
  REQUIRE(got.has_error());
  CHECK(got.error().code == ErrorCode::corrupt);
  REQUIRE(stream->wait(0, 0).has_value());
}

TEST_CASE("who is told to stop does not wait for the drive, and what was on its way is there for the next") {
  World world;
  for (const std::size_t slots : {2U, 18U}) {
    auto stream = world.open(slots);
    world.reader->held = true;
    std::stop_source stop;
    stop.request_stop();
    const auto got = stream->wait(1, 0, stop.get_token());
    REQUIRE(got.has_error());
    CHECK(got.error().code == ErrorCode::cancelled);
    const std::size_t submitted = world.reader->submitted;
    CHECK(submitted == slots);
    // All slots are being read into: one that waits for room is stopped as well.
    if (slots == 2) CHECK(stream->wait(0, 0, stop.get_token()).error().code == ErrorCode::cancelled);
    CHECK(world.reader->submitted == submitted);
    const auto again = stream->wait(1, 0);
    REQUIRE(again.has_value());
    CHECK(world.holds(1, 0, *again));
    CHECK(stream->counters().misses == (slots == 2 ? 2 : 1));
    world.reader->held = false;
    world.pass(*stream);
  }
}

TEST_CASE("whoever may be told to stop is woken by the drive like anybody") {
  World world;
  const std::stop_source stop;
  for (const bool scripted : {true, false}) {
    auto stream = world.open(3, scripted);
    for (std::size_t m = 0; m < world.matrices.size(); ++m) {
      for (std::size_t b = 0; b < stream->blocks(m); ++b) {
        const auto got = stream->wait(m, b, stop.get_token());
        REQUIRE(got.has_value());
        REQUIRE(world.holds(m, b, *got));
      }
    }
  }
}

TEST_CASE("waiting is counted by the clock it was given") {
  static std::chrono::steady_clock::time_point now;
  World world;
  trunk::TrunkStreamOptions options;
  options.direct = false;
  options.clock = [] { return now += std::chrono::milliseconds(1); };
  const auto make = [](const experts::ReaderSetup&) -> Result<std::unique_ptr<experts::Reader>> {
    auto reader = std::make_unique<ScriptedReader>();
    reader->held = true;
    return std::unique_ptr<experts::Reader>(std::move(reader));
  };
  auto stream = TrunkStream::open(world.files, world.matrices, options, make).value();
  REQUIRE(stream->wait(0, 0).has_value());
  CHECK(stream->counters().waiting == std::chrono::milliseconds(1));
}
