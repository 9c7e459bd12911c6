// What every layer computes with: the kernels, the threads, and the question whether to go on.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <stop_token>

#include "kernels/kernels.hpp"
#include "model/checkpoint/weights.hpp"
#include "model/compute_pool.hpp"
#include "model/layers/activations.hpp"
#include "model/layers/cut.hpp"
#include "model/layers/step_times.hpp"
#include "model/sequence/sequence.hpp"
#include "model/trunk/trunk_stream.hpp"

namespace k3::layers {

// Consecutive rows of one batch that belong to one sequence; the first row's position is sequence->committed().
struct RowGroup {
  Sequence* sequence = nullptr;
  std::size_t first = 0, count = 0;
};

// y[rows, w.rows] = x[rows, w.columns] * w^T
struct Product {
  const checkpoint::Matrix& w;
  float* y;
};

// Activations are row-major [rows, width]. Every function that returns bool returns false when it was told to stop; what it had
// written by then is draft, and nobody reads it.
struct Compute {
  const checkpoint::Config& config;
  const kernels::Table& kernels;
  ComputePool& pool;
  bool exact;                   // products of float32 activations instead of rounded ones
  FunctionRef<bool()> proceed;  // a cancellation point; called on the model thread only
  // Of matrices that stay on the drive: where they come from, and why one did not come, in which case products say false too.
  trunk::TrunkStream* trunk = nullptr;
  std::optional<Error>* trunk_error = nullptr;
  StepTimes* times = nullptr;  // where waiting for them is counted
  std::stop_token stop{};      // which that waiting heeds

  // Products smaller than this (multiply-adds) are not worth waking the pool for: about 30 us of one core.
  static constexpr std::size_t inline_work = 1U << 18;

  // Products of one input, in one go: the threads meet once, at the end.
  bool multiply(std::initializer_list<Product> products, Activations& x) const;
  bool multiply(const checkpoint::Matrix& w, Activations& x, float* y) const { return multiply({{w, y}}, x); }
  // In float32 whatever the mode: for the router, whose near ties decide which experts run.
  bool multiply_exact(const checkpoint::Matrix& w, Activations& x, float* y) const;
  // Makes the form of x that MXFP4 weights meet (exact mode needs none).
  bool prepare_mxfp4(Activations& x) const;

  // work(row) for each row, on all threads.
  bool each_row(std::size_t rows, FunctionRef<void(std::size_t)> work) const;
  // work(block) for each, on all threads where `multiply_adds` in all are worth it.
  bool each_block(std::size_t blocks, std::size_t multiply_adds, FunctionRef<void(std::size_t)> work) const;
  // For matrices of `columns` columns that have `outputs` outputs in all.
  CutPlan cut_plan(std::size_t outputs, std::size_t columns, std::size_t rows) const {
    return {outputs, columns, rows, pool.threads()};
  }

 private:
  bool prepare(const checkpoint::Matrix& w, Activations& x) const;
  bool quantise_rows(const Activations& x, kernels::Order order, std::vector<kernels::Block>& to) const;
  bool multiply_resident(std::span<const Product> products, const Activations& x) const;
  bool multiply_streamed(const Product& product, const Activations& x) const;
  void product(const checkpoint::Matrix& w, std::size_t first, std::size_t count, const Activations& x, float* y,
               std::size_t y_stride) const;
};

}  // namespace k3::layers
