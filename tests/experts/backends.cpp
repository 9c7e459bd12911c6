// The real readers over real files: the same bytes as a plain read.
#include <fstream>
#include <random>

#include "tests/experts/fixture.hpp"

namespace k3::experts::test {

namespace {

using Backend = StreamOptions::Backend;

std::unique_ptr<ExpertStream> open_world(const World& world, asio::io_context& context, const StreamOptions& options) {
  const ReaderFactory factory = [&options](const ReaderSetup& setup) { return make_system_reader(setup, options.backend); };
  return open_stream(world.layout, context, options, factory).value();
}

bool rings_work() {
  const auto memory = SlotMemory::make(kAlignment).value();
  return make_ring_reader({{}, memory.data(), 1, kAlignment, 4, 1}).has_value();
}

std::vector<Backend> backends() {
  if (rings_work()) return {Backend::ring, Backend::pread};
  WARN("io_uring is refused on this machine: only the pread backend is tested");
  return {Backend::pread};
}

std::string whole_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Every expert of every layer, in layer order, against the bytes a plain read of the file gives.
void compare_all(const checkpoint::Checkpoint& checkpoint, const StreamOptions& options) {
  asio::io_context context{1};
  const auto stream = ExpertStream::open(checkpoint, context, options).value();
  std::vector<std::string> files;
  for (const auto& file : checkpoint.files()) files.push_back(whole_file(file.path));
  const auto& config = checkpoint.config();
  for (std::uint32_t layer = static_cast<std::uint32_t>(config.dense_layers); layer < config.layers; ++layer) {
    std::vector<ExpertKey> keys;
    for (std::uint32_t expert = 0; expert < config.experts; ++expert) keys.push_back({layer, expert});
    stream->request(keys);
    for (const ExpertKey key : keys) {
      const auto lease = get(context, *stream, key);
      REQUIRE(lease.has_value());
      const ExpertBytes& got = lease->bytes();
      const std::array<const std::uint8_t*, 6> parts{got.w1, got.w1_scale, got.w2, got.w2_scale, got.w3, got.w3_scale};
      const auto& location = checkpoint.expert(layer, key.expert);
      for (std::size_t i = 0; i < 6; ++i) {
        const auto& tensor = location.parts[i];
        REQUIRE(std::memcmp(parts[i], files[tensor.file].data() + tensor.offset, tensor.bytes) == 0);
      }
    }
  }
  CHECK(stream->counters().errors == 0);
}

}  // namespace

TEST_CASE("both backends, direct and buffered, bring every byte") {
  for (const Backend backend : backends()) {
    for (const bool direct : {true, false}) {
      for (const auto placement : {Placement::together, Placement::scattered, Placement::two_files}) {
        for (const std::size_t slots : {1U, 3U, 8U}) {
          const World world(placement);
          asio::io_context context{1};
          StreamOptions options;
          options.backend = backend;
          options.direct = direct;
          options.budget_bytes = slots * world.slot_bytes();
          options.shape = {3, slots == 3 ? std::uint64_t{4096} : 0};
          const auto stream = open_world(world, context, options);
          CHECK(stream->backend() == (backend == Backend::ring ? "io_uring" : "pread"));
          for (std::uint32_t layer = 1; layer <= 2; ++layer) {
            std::vector<ExpertKey> keys{{layer, 0}, {layer, 1}, {layer, 2}, {layer, 3}};
            stream->request(keys);
            for (const ExpertKey key : keys) {
              const auto lease = get(context, *stream, key);
              REQUIRE(lease.has_value());
              REQUIRE(world.holds(lease->bytes(), key));
            }
          }
          REQUIRE(stream->in_flight() == 0);
        }
      }
    }
  }
}

TEST_CASE("a random life: many waiters, cancels and wish lists, and never a wrong byte") {
  for (const Backend backend : backends()) {
    const World world(Placement::together, 3, 6);
    asio::io_context context{1};
    StreamOptions options;
    options.backend = backend;
    options.budget_bytes = 4 * world.slot_bytes();
    const auto stream = open_world(world, context, options);
    std::minstd_rand random(7);
    const auto below = [&random](std::uint32_t n) { return static_cast<std::uint32_t>(random()) % n; };
    const auto any = [&below] { return ExpertKey{1 + below(3), below(6)}; };
    for (int round = 0; round < 150; ++round) {
      const std::vector<ExpertKey> wishes{any(), any(), any()};
      stream->request(wishes);
      std::array<Pending, 3> pending;
      std::array<ExpertKey, 3> keys{any(), any(), any()};
      for (std::size_t i = 0; i < 3; ++i) start(context, *stream, keys[i], pending[i]);
      if (below(2) == 0) settle(context);
      if (below(2) == 0) pending[below(3)].stop.request_stop();
      context.restart();
      for (const Pending& p : pending) {
        while (!p.result) context.run_one();
      }
      for (std::size_t i = 0; i < 3; ++i) {
        if (pending[i].ok()) REQUIRE(world.holds((*pending[i].result)->bytes(), keys[i]));
        REQUIRE((pending[i].ok() || pending[i].failed(ErrorCode::cancelled)));
      }
    }
    bool drained = false;
    asio::co_spawn(context, drain_into(*stream, drained), asio::detached);
    context.restart();
    context.run();
    CHECK(drained);
    CHECK(stream->in_flight() == 0);
  }
}

TEST_CASE("a stream may be destroyed with reads in flight and coroutines asleep") {
  for (const Backend backend : backends()) {
    const World world;
    asio::io_context context{1};
    StreamOptions options;
    options.backend = backend;
    options.budget_bytes = 8 * world.slot_bytes();
    auto stream = open_world(world, context, options);
    const std::vector<ExpertKey> keys{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 0}};
    stream->request(keys);
    Pending pending;
    start(context, *stream, {2, 3}, pending);
    settle(context);
    const bool had = pending.ok();
    pending.result.reset();  // leases go first
    stream.reset();
    settle(context);
    CHECK((had || !pending.ok()));
  }
}

TEST_CASE("a file cut short names the file, the place, what was expected and what came") {
  for (const Backend backend : backends()) {
    for (const bool direct : {true, false}) {
      for (const std::uint64_t cut : {100U, 5000U}) {
        const World world;
        std::filesystem::resize_file(world.layout.files[0].path, world.layout.files[0].bytes - cut);
        asio::io_context context{1};
        StreamOptions options;
        options.backend = backend;
        options.direct = direct;
        const auto stream = open_world(world, context, options);
        const auto lease = get(context, *stream, {2, 3});
        REQUIRE(lease.has_error());
        CHECK(lease.error().code == ErrorCode::corrupt);
        CHECK(lease.error().file == world.layout.files[0].path.string());
        CHECK(lease.error().offset == static_cast<std::int64_t>(world.layout.files[0].bytes - cut));
        CHECK(get(context, *stream, {1, 0}).has_value());
      }
    }
  }
}

TEST_CASE("a missing file is an error of opening") {
  const World world;
  std::filesystem::remove(world.layout.files[1].path);
  asio::io_context context{1};
  const StreamOptions options;
  const ReaderFactory factory = [](const ReaderSetup& setup) { return make_pread_reader(setup); };
  const auto stream = open_stream(world.layout, context, options, factory);
  REQUIRE(stream.has_error());
  CHECK(stream.error().code == ErrorCode::io);
  CHECK(stream.error().file == world.layout.files[1].path.string());
}

TEST_CASE("the budget makes slots: at least one, at most one an expert") {
  const World world;
  asio::io_context context{1};
  StreamOptions options;
  CHECK(open_world(world, context, options)->slots() == 1);
  options.budget_bytes = 3 * world.slot_bytes() + world.slot_bytes() - 1;
  CHECK(open_world(world, context, options)->slots() == 3);
  options.budget_bytes = std::uint64_t{1} << 40;
  CHECK(open_world(world, context, options)->slots() == 8);
}

TEST_CASE("the golden model's experts are the bytes of its files") {
  const auto opened = checkpoint::Checkpoint::open(K3_TEST_DATA "/tiny/model");
  REQUIRE(opened.has_value());
  for (const Backend backend : backends()) {
    for (const bool direct : {true, false}) {
      StreamOptions options;
      options.backend = backend;
      options.direct = direct;
      compare_all(*opened, options);
      options.budget_bytes = 3 * opened->expert_bytes() + 3 * 8192;
      compare_all(*opened, options);
    }
  }
}

TEST_CASE("the bundled model's experts are the bytes of its files") {
  const auto opened = checkpoint::Checkpoint::open(K3_SOURCE_DIR "/tools/mini/model");
  REQUIRE(opened.has_value());
  StreamOptions options;
  options.budget_bytes = 5 * opened->expert_bytes();
  compare_all(*opened, options);
}

}  // namespace k3::experts::test
