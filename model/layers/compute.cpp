#include "model/layers/compute.hpp"

#include <algorithm>
#include <cassert>

namespace k3::layers {

using checkpoint::Matrix;
using checkpoint::Precision;

bool Compute::each_block(std::size_t blocks, std::size_t multiply_adds, FunctionRef<void(std::size_t)> work) const {
  if (multiply_adds >= inline_work) return pool.run(blocks, work, proceed);
  if (!proceed()) return false;
  for (std::size_t i = 0; i < blocks; ++i) work(i);
  return true;
}

bool Compute::each_row(std::size_t rows, FunctionRef<void(std::size_t)> work) const { return pool.run(rows, work, proceed); }

bool Compute::prepare(const Matrix& w, Activations& x) const {
  assert(w.columns == x.columns());
  if (exact) return true;
  if (w.precision == Precision::bf16) {
    if (std::exchange(x.has_rounded_, true)) return true;
    const std::size_t columns = x.columns();
    x.rounded_.resize(x.rows() * columns);
    return each_row(x.rows(),
                    [&](std::size_t row) { kernels.round_bf16(x.values() + row * columns, columns, &x.rounded_[row * columns]); });
  }
  if (w.precision == Precision::int4) return prepare_mxfp4(x);
  if (std::exchange(x.has_natural_, true)) return true;
  return quantise_rows(x, kernels::Order::natural, x.natural_);
}

bool Compute::prepare_mxfp4(Activations& x) const {
  if (exact || std::exchange(x.has_even_odd_, true)) return true;
  return quantise_rows(x, kernels::Order::even_odd, x.even_odd_);
}

bool Compute::quantise_rows(const Activations& x, kernels::Order order, std::vector<kernels::Block>& to) const {
  const std::size_t columns = x.columns(), blocks = x.blocks();
  to.resize(x.rows() * blocks);
  return each_row(x.rows(),
                  [&](std::size_t row) { kernels.quantise(x.values() + row * columns, columns, order, &to[row * blocks], 0); });
}

// Outputs [first, first + count) of one matrix, for all rows; y [rows, stride].
void Compute::product(const Matrix& w, std::size_t first, std::size_t count, const Activations& x, float* y,
                      std::size_t stride) const {
  const std::size_t columns = w.columns, rows = x.rows();
  switch (w.precision) {
    case Precision::bf16: {
      const auto multiply_bf16 = exact ? kernels.matmul_bf16 : kernels.fast_bf16;
      multiply_bf16(w.bf16() + first * columns, count, columns, exact ? x.values() : x.rounded(), rows, columns, y + first, stride);
      return;
    }
    case Precision::int8:
      kernels.fast_int8(w.int8() + first * columns, w.scale + first, count, columns, x.natural(), rows, y + first, stride);
      return;
    case Precision::int4:
      kernels.fast_int4(w.int4() + first * columns / 2, w.scale + first * columns / 64, count, columns, x.even_odd(), rows,
                        y + first, stride);
      return;
  }
}

bool Compute::multiply(std::initializer_list<Product> products, Activations& x) const {
  for (const Product& product : products) {
    assert(!exact || product.w.precision == Precision::bf16);
    if (!prepare(product.w, x)) return false;
  }
  // Most often all of a kind, and then no list is needed.
  const auto on_drive = [](const Product& product) { return product.w.streamed != Matrix::resident; };
  if (std::none_of(products.begin(), products.end(), on_drive)) return multiply_resident(products, x);
  for (const Product& product : products) {
    if (!(on_drive(product) ? multiply_streamed(product, x) : multiply_resident({&product, 1}, x))) return false;
  }
  return true;
}

bool Compute::multiply_resident(std::span<const Product> products, const Activations& x) const {
  std::size_t outputs = 0;
  for (const Product& product : products) outputs += product.w.rows;
  const CutPlan plan = cut_plan(outputs, x.columns(), x.rows());
  const auto cut = [&](std::size_t matrix) { return Cut(plan, products[matrix].w.rows); };
  std::size_t blocks = 0;
  for (std::size_t i = 0; i < products.size(); ++i) blocks += cut(i).blocks();
  return each_block(blocks, outputs * x.columns() * x.rows(), [&](std::size_t i) {
    const CutBlock block = block_at(i, products.size(), cut);
    const Product& at = products[block.matrix];
    product(at.w, block.first, block.count, x, at.y, at.w.rows);
  });
}

// Block by block, as they come from the drive.
bool Compute::multiply_streamed(const Product& whole, const Activations& x) const {
  const Matrix& w = whole.w;
  for (std::size_t i = 0; i < trunk->blocks(w.streamed); ++i) {
    if (!proceed()) return false;
    const StepTimes::Phase phase = times->phase();
    times->enter(StepTimes::Phase::waiting);
    const auto rows = trunk->wait(w.streamed, i, stop);
    times->enter(phase);
    if (rows.has_error()) {
      if (rows.error().code != ErrorCode::cancelled) *trunk_error = rows.error();
      return false;
    }
    Matrix part = w;
    part.data = rows->data;
    part.rows = rows->rows;
    if (w.scale != nullptr) part.scale += rows->first * (w.precision == Precision::int4 ? w.columns / 64 : 1);
    const Cut cut(cut_plan(part.rows, w.columns, x.rows()), part.rows);
    const bool done = each_block(cut.blocks(), part.rows * w.columns * x.rows(), [&](std::size_t n) {
      const CutBlock block = block_at(n, 1, [&](std::size_t) { return cut; });
      product(part, block.first, block.count, x, whole.y + rows->first, w.rows);
    });
    if (!done) return false;
  }
  return true;
}

bool Compute::multiply_exact(const Matrix& w, Activations& x, float* y) const {
  assert(w.precision == Precision::bf16 && w.columns == x.columns());
  const Cut cut(cut_plan(w.rows, w.columns, x.rows()), w.rows);
  return each_block(cut.blocks(), w.rows * w.columns * x.rows(), [&](std::size_t i) {
    const CutBlock block = block_at(i, 1, [&](std::size_t) { return cut; });
    kernels.matmul_bf16(w.bf16() + block.first * w.columns, block.count, w.columns, x.values(), x.rows(), w.columns,
                        y + block.first, w.rows);
  });
}

}  // namespace k3::layers
