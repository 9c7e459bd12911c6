// The input of products, in each of the forms that weights ask for, made on first need and then shared.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/kernels.hpp"

namespace k3::layers {

class Activations {
 public:
  // x [rows, columns], read until the next set(). What was made of an earlier x is forgotten; its memory is kept.
  void set(const float* x, std::size_t rows, std::size_t columns) {
    x_ = x;
    rows_ = rows;
    columns_ = columns;
    has_rounded_ = has_natural_ = has_even_odd_ = false;
  }
  const float* values() const { return x_; }
  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  std::size_t blocks() const { return kernels::blocks_of(columns_); }

  // [rows, columns] rounded to bf16; [rows, blocks()] rounded to int8. Only after they were made.
  const float* rounded() const { return rounded_.data(); }
  const kernels::Block* natural() const { return natural_.data(); }
  const kernels::Block* even_odd() const { return even_odd_.data(); }

 private:
  friend struct Compute;
  const float* x_ = nullptr;
  std::size_t rows_ = 0, columns_ = 0;
  std::vector<float> rounded_;
  std::vector<kernels::Block> natural_, even_odd_;
  bool has_rounded_ = false, has_natural_ = false, has_even_odd_ = false;
};

}  // namespace k3::layers
