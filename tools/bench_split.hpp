// How a product is shared out among threads: as the layers do it, so that what is measured is what a layer gets.
#pragma once

#include <cstddef>

#include "model/compute_pool.hpp"
#include "model/layers/cut.hpp"

namespace k3::cli {

// product(matrix, first, count) for all blocks of `matrices` matrices of [outputs, columns], in one go.
template <class Product>
void in_blocks(ComputePool& pool, std::size_t matrices, std::size_t outputs, std::size_t columns, std::size_t rows,
               const Product& product) {
  const layers::Cut cut({matrices * outputs, columns, rows, pool.threads()}, outputs);
  pool.run(matrices * cut.blocks(), [&](std::size_t i) {
    const layers::CutBlock block = layers::block_at(i, matrices, [&](std::size_t) { return cut; });
    product(block.matrix, block.first, block.count);
  });
}

}  // namespace k3::cli
