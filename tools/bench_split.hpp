// How a product is shared out among threads: as the layers do it, so that what is measured is what a layer gets.
#pragma once

#include <algorithm>
#include <cstddef>

#include "model/compute_pool.hpp"

namespace k3::cli {

// Outputs a block: more of them with few rows, where a block lasts no longer than its bytes take to arrive.
inline std::size_t outputs_of_a_block(const ComputePool& pool, std::size_t outputs, std::size_t rows) {
  constexpr std::size_t short_block = 64, long_block = 256, few_rows = 4;
  if (rows > few_rows) return short_block;
  return std::clamp(outputs / (4 * std::size_t{pool.threads()}) / short_block * short_block, short_block, long_block);
}

// product(matrix, first, count) for all blocks of `matrices` matrices of `outputs` outputs, in one go.
template <class Product>
void in_blocks(ComputePool& pool, std::size_t matrices, std::size_t outputs, std::size_t rows, const Product& product) {
  const std::size_t block = outputs_of_a_block(pool, outputs, rows);
  const std::size_t blocks = (outputs + block - 1) / block;
  pool.run(matrices * blocks, [&](std::size_t i) {
    const std::size_t first = i % blocks * block;
    product(i / blocks, first, std::min(block, outputs - first));
  });
}

}  // namespace k3::cli
