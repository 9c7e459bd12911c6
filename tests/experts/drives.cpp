// Files that lie on several drives: reads go to the one that will be done first, and to another one when a drive fails.
#include <deque>

#include "tests/experts/bench.hpp"

namespace k3::experts::test {

namespace {

Replicas::Time now_{};
Replicas::Time simulated() { return now_; }

// File 0 on drives 0 and 1, file 1 on drive 1 alone.
Replicas two_drives() { return {{0, 2, 3}, {10, 11, 12}, {0, 1, 1}, simulated}; }

Completion read_of(std::uint32_t bytes) {
  Completion read;
  read.length = bytes;
  return read;
}

// Reads of file 0 at a steady depth, from drives that serve one read after the other in so many milliseconds each. Returns how many
// of the last `counted` reads each drive served.
std::array<int, 2> simulate(Replicas& replicas, std::array<int, 2> milliseconds, int reads, int counted, unsigned depth = 6) {
  constexpr std::uint32_t bytes = 16'000'000;
  std::array<std::deque<Completion>, 2> queues;
  std::array<Replicas::Time, 2> finish{};
  std::array<int, 2> served{};
  const auto length = [&](int drive) { return std::chrono::milliseconds(milliseconds[drive]); };
  const auto send = [&] {
    Completion read = read_of(bytes);
    std::uint32_t tried = 0;
    replicas.choose(0, read, tried);
    replicas.begin(read);
    if (queues[read.file].empty()) finish[read.file] = now_ + length(static_cast<int>(read.file));
    queues[read.file].push_back(read);
  };
  for (unsigned i = 0; i < depth; ++i) send();
  for (int i = 0; i < reads; ++i) {
    const bool second = queues[0].empty() || (!queues[1].empty() && finish[1] < finish[0]);
    const int drive = second ? 1 : 0;
    now_ = finish[drive];
    Completion read = queues[drive].front();
    queues[drive].pop_front();
    finish[drive] = now_ + length(drive);
    read.result = static_cast<std::int32_t>(bytes);
    replicas.end(read);
    if (i >= reads - counted) ++served[drive];
    send();
  }
  for (auto& queue : queues) {
    for (Completion& read : queue) replicas.end(read);
  }
  return served;
}

}  // namespace

TEST_CASE("drives of equal speed share the bytes on their way") {
  Replicas replicas = two_drives();
  std::array<std::uint64_t, 2> sent{};
  for (const std::uint32_t bytes : {100U, 30U, 30U, 30U, 30U, 100U, 80U}) {
    Completion read = read_of(bytes);
    std::uint32_t tried = 0;
    replicas.choose(0, read, tried);
    CHECK(read.fd == static_cast<int>(10 + read.file));
    CHECK(tried == 1U << read.file);
    replicas.begin(read);
    sent[read.file] += bytes;
  }
  CHECK(sent[0] == 200);
  CHECK(sent[1] == 200);
}

TEST_CASE("what else is on its way from a drive counts") {
  Replicas replicas = two_drives();
  Completion other = read_of(1000), read = read_of(10);
  std::uint32_t tried = 0;
  replicas.choose(1, other, tried);
  CHECK(other.fd == 12);
  CHECK(replicas.all_tried(1, tried));
  replicas.begin(other);
  for (int i = 0; i < 20; ++i) {
    tried = 0;
    replicas.choose(0, read, tried);
    CHECK(read.file == 0);
    CHECK_FALSE(replicas.all_tried(0, tried));
    replicas.begin(read);
  }
}

TEST_CASE("a drive gets reads in proportion to its speed, and more when it becomes faster") {
  Replicas replicas = two_drives();
  const auto third = simulate(replicas, {10, 20}, 600, 300);
  CHECK(third[0] > 180);
  CHECK(third[1] > 80);
  const auto turned = simulate(replicas, {30, 10}, 900, 300);
  CHECK(turned[0] > 50);
  CHECK(turned[1] > 200);
  const auto alike = simulate(replicas, {10, 10}, 900, 300);
  CHECK(alike[0] > 130);
  CHECK(alike[1] > 130);
}

TEST_CASE("a drive that was slow is tried again when there is little to read") {
  Replicas replicas = two_drives();
  simulate(replicas, {100, 10}, 100, 100);
  CHECK(simulate(replicas, {10, 10}, 100, 100, 1)[0] < 100);
  CHECK(simulate(replicas, {5, 10}, 6000, 500, 1)[0] > 400);
}

TEST_CASE("a drive that fails is passed over for a while") {
  Replicas replicas = two_drives();
  const auto choose = [&replicas] {
    Completion read = read_of(1000);
    std::uint32_t tried = 0;
    replicas.choose(0, read, tried);
    return read;
  };
  REQUIRE(choose().file == 0);
  replicas.distrust(choose());
  for (int i = 0; i < 500; ++i) CHECK(choose().file == 1);
  int again = 0;
  for (int i = 0; i < 500; ++i) again += choose().file == 0;
  CHECK(again > 0);
}

TEST_CASE("a read that fails on one drive is made on the other") {
  const Placement placement = GENERATE(Placement::together, Placement::scattered, Placement::two_files);
  Bench bench(2, placement, 32, 2);
  const std::size_t windows = plan_windows(bench.world.layout.places[0]).count;
  SECTION("an error") {
    bench.disk->fate = [](const Completion& read) { return read.file % 2 == 0 ? Fate{EIO} : Fate{}; };
  }
  SECTION("nothing more to read, after a part") {
    bench.disk->fate = [](const Completion& read) {
      return read.file % 2 == 0 ? Fate{0, read.offset % 8192 == 0 ? 512U : 0U} : Fate{};
    };
  }
  for (int i = 0; i < 20; ++i) CHECK(bench.good(i % 2 == 0 ? kA : kD));
  CHECK(bench.good(kB));
  CHECK(bench.stream->counters().errors == 0);
  CHECK(bench.disk->submitted > 3 * windows);
}

TEST_CASE("an expert fails when every drive has failed it, once each, and is good when one has recovered") {
  Bench bench(1, Placement::together, 32, 3);
  std::vector<int> asked;
  bench.disk->fate = [&asked](const Completion& read) {
    asked.push_back(read.fd);
    return Fate{EIO};
  };
  const auto lease = get(bench.context, *bench.stream, kA);
  REQUIRE(lease.has_error());
  CHECK(lease.error().code == ErrorCode::io);
  REQUIRE(asked.size() == 3);
  std::sort(asked.begin(), asked.end());
  CHECK(std::unique(asked.begin(), asked.end()) == asked.end());
  CHECK(bench.stream->counters().errors == 1);
  CHECK(bench.stream->in_flight() == 0);
  const int recovered = asked[2];
  bench.disk->fate = [recovered](const Completion& read) { return read.fd == recovered ? Fate{} : Fate{EIO}; };
  CHECK(bench.good(kA));
}

TEST_CASE("a copy cut short while it is served costs no answer") {
  Bench bench(1, Placement::together, 32, 2);
  std::filesystem::resize_file(bench.world.layout.files[0].path, 500);
  for (const ExpertKey key : {kA, kB, kC, kD, kA, kB}) CHECK(bench.good(key));
  CHECK(bench.stream->counters().errors == 0);
}

TEST_CASE("interruptions and short reads stay with the drive they began on") {
  Bench bench(1, Placement::together, 32, 2);
  std::vector<int> asked;
  bench.disk->fate = [&asked](const Completion& read) -> Fate {
    asked.push_back(read.fd);
    return asked.size() % 3 == 1 ? Fate{EINTR} : Fate{0, 4096 + 1000};
  };
  CHECK(bench.good(kA));
  CHECK(asked.size() > 4);
  CHECK(std::count(asked.begin(), asked.end(), asked[0]) == static_cast<std::ptrdiff_t>(asked.size()));
}

TEST_CASE("experts asked for together come from both drives") {
  Bench bench(4, Placement::together, 32, 2);
  bench.disk->held = true;
  const std::vector<ExpertKey> keys{kA, kB, kC, kD};
  bench.stream->request(keys);
  REQUIRE(bench.disk->waiting() == 4);
  int first = 0;
  for (std::size_t i = 0; i < 4; ++i) first += bench.disk->at(i).file == 0;
  CHECK(first == 2);
  bench.disk->held = false;
  for (const ExpertKey key : keys) CHECK(bench.good(key));
}

TEST_CASE("one copy that opens is enough") {
  World world;
  world.add_drive();
  std::filesystem::remove(world.layout.files[0].path);
  std::filesystem::remove(world.layout.files[1].more[0].path);
  const auto open = open_files(world.layout.files, false);
  REQUIRE(open.has_value());
  CHECK(open->first == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(open->drives == std::vector<std::uint32_t>{1, 0});
  std::filesystem::remove(world.layout.files[1].path);
  const auto none = open_files(world.layout.files, false);
  REQUIRE(none.has_error());
  CHECK(none.error().file == world.layout.files[1].path.string());
}

TEST_CASE("both backends read from two drives") {
  const auto backend = GENERATE(StreamOptions::Backend::ring, StreamOptions::Backend::pread);
  World world;
  world.add_drive();
  asio::io_context context{1};
  StreamOptions options;
  options.budget_bytes = 3 * world.slot_bytes();
  const ReaderFactory factory = [&](const ReaderSetup& setup) { return make_system_reader(setup, backend); };
  auto stream = open_stream(world.layout, context, options, factory);
  if (!stream) {
    WARN("no io_uring here: " + stream.error().describe());
    return;
  }
  std::filesystem::resize_file(world.layout.files[0].more[0].path, 0);
  for (int i = 0; i < 3; ++i) {
    for (const ExpertKey key : {kA, kB, kC, kD}) {
      const auto lease = get(context, **stream, key);
      REQUIRE(lease.has_value());
      CHECK(world.holds(lease->bytes(), key));
    }
  }
}

}  // namespace k3::experts::test
