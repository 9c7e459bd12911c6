// The arithmetic of routed experts.
#include <algorithm>

#include "model/layers/latent_moe.hpp"

namespace k3::layers {

namespace {

void gather(const Compute& compute, const Activations& latent, ExpertWave& wave) {
  const std::size_t width = latent.columns(), blocks = latent.blocks(), inner = compute.config.expert_inner;
  const std::size_t rows = wave.users.size();
  wave.gate.resize(rows * inner);
  wave.up.resize(rows * inner);
  wave.out.resize(rows * width);
  if (compute.exact) {
    wave.x.resize(rows * width);
    for (std::size_t i = 0; i < rows; ++i) std::copy_n(latent.values() + wave.users[i].row * width, width, &wave.x[i * width]);
    return;
  }
  wave.inner_blocks.resize(rows * kernels::blocks_of(inner));
  wave.x_blocks.resize(rows * blocks);
  for (std::size_t i = 0; i < rows; ++i) {
    std::copy_n(latent.even_odd() + wave.users[i].row * blocks, blocks, &wave.x_blocks[i * blocks]);
  }
}

// An MXFP4 matrix of an expert.
struct Packed {
  const std::uint8_t *codes, *scale;
  std::size_t columns;
};

// Outputs [first, first + count) of w for rows [row, row + rows) of the gathered x; y [.., stride].
void product(const Compute& compute, const Packed& w, std::size_t first, std::size_t count, const std::vector<float>& x,
             const std::vector<kernels::Block>& blocks, std::size_t row, std::size_t rows, float* y, std::size_t stride) {
  const std::uint8_t* codes = w.codes + first * w.columns / 2;
  const std::uint8_t* scale = w.scale + first * w.columns / kernels::group_columns;
  if (compute.exact) {
    compute.kernels.matmul_mxfp4(codes, scale, count, w.columns, &x[row * w.columns], rows, w.columns, y + first, stride);
  } else {
    compute.kernels.fast_mxfp4(codes, scale, count, w.columns, &blocks[row * kernels::blocks_of(w.columns)], rows, y + first,
                               stride);
  }
}

// Gate and up for the same outputs, so that the activation and its rounding follow while both are in the cache.
void inner_block(const Compute& compute, const ExpertWave::Part& part, std::size_t latent, std::size_t first, std::size_t count,
                 ExpertWave& wave) {
  const std::size_t inner = compute.config.expert_inner, blocks = kernels::blocks_of(inner);
  const experts::ExpertBytes& bytes = part.lease.bytes();
  float* const gate = &wave.gate[part.first * inner];
  float* const up = &wave.up[part.first * inner];
  product(compute, {bytes.w1, bytes.w1_scale, latent}, first, count, wave.x, wave.x_blocks, part.first, part.rows, gate, inner);
  product(compute, {bytes.w3, bytes.w3_scale, latent}, first, count, wave.x, wave.x_blocks, part.first, part.rows, up, inner);
  for (std::size_t row = 0; row < part.rows; ++row) {
    float* const g = gate + row * inner + first;
    compute.kernels.situ(g, up + row * inner + first, count, compute.config.situ_beta, compute.config.situ_linear_beta, g);
    if (compute.exact) continue;
    compute.kernels.quantise(g, count, kernels::Order::even_odd, &wave.inner_blocks[(part.first + row) * blocks], first);
  }
}

// One block of outputs of every expert, added up by ascending id: nobody else touches these columns of `sum`.
void outer_block(const Compute& compute, std::size_t latent, std::size_t first, std::size_t count, ExpertWave& wave, float* sum) {
  const std::size_t inner = compute.config.expert_inner;
  for (const ExpertWave::Part& part : wave.parts) {
    const experts::ExpertBytes& bytes = part.lease.bytes();
    product(compute, {bytes.w2, bytes.w2_scale, inner}, first, count, wave.gate, wave.inner_blocks, part.first, part.rows,
            &wave.out[part.first * latent], latent);
    for (std::size_t i = part.first; i < part.first + part.rows; ++i) {
      compute.kernels.axpy(wave.users[i].weight, &wave.out[i * latent + first], count, sum + wave.users[i].row * latent + first);
    }
  }
}

}  // namespace

bool run_wave(const Compute& compute, const Activations& latent, ExpertWave& wave, float* sum) {
  if (wave.parts.empty()) return true;  // every one of its experts was lost
  const std::size_t inner = compute.config.expert_inner, width = latent.columns();
  gather(compute, latent, wave);
  std::size_t most_rows = 0;
  for (const ExpertWave::Part& part : wave.parts) most_rows = std::max(most_rows, part.rows);
  const std::size_t work = wave.users.size() * inner * width;

  const std::size_t parts = wave.parts.size();
  const Cut inner_cut(compute.cut_plan(inner * parts, width, most_rows), inner);
  const auto first_half = [&](std::size_t i) {
    const CutBlock block = block_at(i, parts, [&](std::size_t) { return inner_cut; });
    inner_block(compute, wave.parts[block.matrix], width, block.first, block.count, wave);
  };
  if (!compute.each_block(parts * inner_cut.blocks(), 2 * work, first_half)) return false;

  const Cut outer_cut(compute.cut_plan(width, inner * parts, most_rows), width);
  const auto second_half = [&](std::size_t i) {
    const CutBlock block = block_at(i, 1, [&](std::size_t) { return outer_cut; });
    outer_block(compute, width, block.first, block.count, wave, sum);
  };
  return compute.each_block(outer_cut.blocks(), work, second_half);
}

}  // namespace k3::layers
