// What `k3 bench kernels` measures: a piece of a layer at the released size, on weights that no cache holds.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.hpp"
#include "model/compute_pool.hpp"
#include "tools/bench_memory.hpp"

namespace k3::cli {

struct BenchCase {
  std::string name;
  std::size_t rows = 0;
  double bytes = 0;           // that come from memory, whatever the rows
  double operations = 0;      // a multiply-add is two
  std::function<void()> run;  // on the weights that lie next in memory
};

// All names there are, in the order in which they are measured.
std::vector<std::string_view> bench_case_names();

// Memory whose pieces are handed out in turn, so that a piece is long forgotten by the caches when it comes again.
class ColdMemory {
 public:
  Result<void> make(ComputePool& pool, std::size_t bytes, Fill what);
  bool empty() const { return memory_.bytes() == 0; }
  const BenchMemory& memory() const { return memory_; }
  std::byte* next(std::size_t bytes);

 private:
  BenchMemory memory_;
  std::size_t at_ = 0;
};

// Kinds of weights share memory where the same bytes suit them.
struct BenchData {
  ColdMemory codes;  // MXFP4, int8, int4
  ColdMemory bf16;
  ColdMemory floats;  // states and caches
  // Scales lie as their codes do: at a fixed fraction of the code's place.
  BenchMemory mxfp4_scales, int4_scales;

  // Memory that is read to see how fast memory is.
  const BenchMemory& any() const;
};

struct BenchSetup {
  const kernels::Table* kernels = nullptr;
  ComputePool* pool = nullptr;
  std::size_t memory = 0;  // bytes through which weights cycle
  std::vector<std::size_t> rows;
  std::vector<std::string> names;  // empty: all
};

// Fills `data`, which must outlive the cases, as must the pool.
Result<std::vector<BenchCase>> make_bench_cases(const BenchSetup& setup, BenchData& data);

}  // namespace k3::cli
