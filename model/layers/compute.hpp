// What every layer computes with: the kernels, the threads, and the question whether to go on.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/kernels.hpp"
#include "model/checkpoint/weights.hpp"
#include "model/compute_pool.hpp"
#include "model/sequence/sequence.hpp"

namespace k3::layers {

// Consecutive rows of one batch that belong to one sequence; the first row's position is sequence->committed().
struct RowGroup {
  Sequence* sequence = nullptr;
  std::size_t first = 0, count = 0;
};

// Activations are row-major [rows, width]. Every function that returns bool returns false when it was told to stop; what it had
// written by then is draft, and nobody reads it.
struct Compute {
  const checkpoint::Config& config;
  const kernels::Table& kernels;
  ComputePool& pool;
  FunctionRef<bool()> proceed;  // a cancellation point; called on the model thread only

  // Output rows a block: the unit of work for a thread, and the longest stretch between two cancellation points. 64 rows of the
  // widest released matrix (33,792 bf16 columns) are 4.3 MB, well under a millisecond of memory traffic for one row; the narrowest
  // big one (1,536 rows) still makes 24 blocks to share out.
  static constexpr std::size_t block_outputs = 64;
  // Products smaller than this (multiply-adds) are not worth waking the pool for: about 30 us of one core.
  static constexpr std::size_t inline_work = 1U << 18;

  // y[rows, w.rows] = x[rows, w.columns] * w^T
  bool multiply(const checkpoint::Matrix& w, const float* x, std::size_t rows, float* y) const;
  // The same for MXFP4.
  bool multiply_mxfp4(const std::uint8_t* packed, const std::uint8_t* scale, std::size_t outputs, std::size_t columns,
                      const float* x, std::size_t rows, float* y) const;
  // work(row) for each row, on all threads.
  bool each_row(std::size_t rows, FunctionRef<void(std::size_t)> work) const;

 private:
  template <class Product>
  bool in_blocks(std::size_t outputs, std::size_t work, const Product& product) const;
};

}  // namespace k3::layers
