#include "model/compute_pool.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "tests/catch.hpp"

using k3::ComputePool;

TEST_CASE("each block is done once, by however many threads") {
  for (const unsigned threads : {1U, 2U, 5U}) {
    ComputePool pool(threads);
    CHECK(pool.threads() == threads);
    for (const std::size_t blocks : {0U, 1U, 2U, 3U, 100U}) {
      std::vector<std::atomic<int>> seen(blocks);
      CHECK(pool.run(blocks, [&](std::size_t i) { ++seen[i]; }));
      for (auto& count : seen) CHECK(count == 1);
    }
  }
}

TEST_CASE("a stop begins no further block, and the pool works on") {
  for (const unsigned threads : {1U, 3U}) {
    ComputePool pool(threads);
    const auto caller = std::this_thread::get_id();
    std::atomic<int> asked = 0, done = 0;
    // Other threads hold their first block until the stop is out, lest they finish all before the caller has asked three times.
    const auto work = [&](std::size_t) {
      while (std::this_thread::get_id() != caller && asked < 3) std::this_thread::yield();
      ++done;
    };
    CHECK_FALSE(pool.run(1000, work, [&] { return ++asked < 3; }));
    CHECK(asked == 3);
    if (threads == 1) CHECK(done == 2);
    done = 0;
    CHECK(pool.run(10, [&](std::size_t) { ++done; }));
    CHECK(done == 10);
  }
}

TEST_CASE("hyperthreads of one core count once") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("k3-topology-" + std::to_string(::getpid()));
  const auto describe = [&](unsigned cpu, const char* siblings) {
    const fs::path folder = root / ("cpu" + std::to_string(cpu)) / "topology";
    fs::create_directories(folder);
    std::ofstream(folder / "thread_siblings_list") << siblings << '\n';
  };
  describe(0, "0,4");
  describe(4, "0,4");
  describe(1, "1,5");
  CHECK(k3::count_cores({0, 1, 4}, root) == 2);
  CHECK(k3::count_cores({4}, root) == 1);
  CHECK(k3::count_cores({0, 7, 8}, root) == 3);  // nothing is known of 7 and 8
  fs::remove_all(root);
}
