// The hot path allocates nothing once it is warm: a decode step, from the first layer to the logits.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/catch.hpp"
#include "tests/forward/fixture.hpp"
#include "tests/forward/golden.hpp"

using namespace k3;
using namespace k3::test;

namespace {

std::atomic<bool> counting{false};
std::atomic<std::size_t> allocations{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return allocate(bytes, static_cast<std::size_t>(alignment)); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return allocate(bytes, static_cast<std::size_t>(alignment)); }
// All forms, or a sanitizer's own would be mixed with these.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, alignof(std::max_align_t)); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

TEST_CASE("allocations are counted") {
  allocations = 0;
  counting = true;
  void* const memory = ::operator new(8);
  counting = false;
  CHECK(allocations == 1);
  ::operator delete(memory);
}

TEST_CASE("a warm decode step allocates nothing") {
  const bool exact = GENERATE(false, true);
  const Golden want = golden();
  Runner runner(tiny(), {2, 144, "", exact, {}});
  auto sequence = runner.sequence();
  for (std::size_t i = 0; i < want.tokens.size(); ++i) {
    const Row row{sequence.get(), want.tokens[i], true};
    REQUIRE(runner.step({&row, 1}).has_value());
    sequence->commit(std::span(want.tokens).subspan(i, 1));
  }
  // In one coroutine, as the actor runs its steps: what starting it costs is not the step's.
  // Each token a second time would need a sequence of its own; so the same step is taken again and not committed.
  const Row row{sequence.get(), want.tokens[0], true};
  std::size_t counted = 1;
  const auto measure = [&]() -> boost::asio::awaitable<void> {
    for (int round = 0; round < 3; ++round) {
      const StepHooks hooks;
      const std::stop_token never;
      allocations = 0;
      counting = true;
      const std::span<const Row> rows(&row, 1);
      const auto result = co_await runner.forward().step(rows, never, hooks);
      counting = false;
      counted = allocations;
      CHECK(result.has_value());
    }
  };
  runner.run(measure);
  CHECK(counted == 0);
}
