#include "model/layers/compute.hpp"

#include <algorithm>

namespace k3::layers {

template <class Product>
bool Compute::in_blocks(std::size_t outputs, std::size_t work, const Product& product) const {
  const auto block = [&](std::size_t i) { product(i * block_outputs, std::min(block_outputs, outputs - i * block_outputs)); };
  if (work < inline_work) {
    if (!proceed()) return false;
    product(0, outputs);
    return true;
  }
  return pool.run((outputs + block_outputs - 1) / block_outputs, block, proceed);
}

bool Compute::multiply(const checkpoint::Matrix& w, const float* x, std::size_t rows, float* y) const {
  return in_blocks(w.rows, w.rows * w.columns * rows, [&](std::size_t first, std::size_t count) {
    kernels.matmul_bf16(w.data + first * w.columns, count, w.columns, x, rows, w.columns, y + first, w.rows);
  });
}

bool Compute::multiply_mxfp4(const std::uint8_t* packed, const std::uint8_t* scale, std::size_t outputs, std::size_t columns,
                             const float* x, std::size_t rows, float* y) const {
  return in_blocks(outputs, outputs * columns * rows, [&](std::size_t first, std::size_t count) {
    kernels.matmul_mxfp4(packed + first * columns / 2, scale + first * columns / 32, count, columns, x, rows, columns, y + first,
                         outputs);
  });
}

bool Compute::each_row(std::size_t rows, FunctionRef<void(std::size_t)> work) const { return pool.run(rows, work, proceed); }

}  // namespace k3::layers
