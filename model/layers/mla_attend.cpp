// Attention of some heads and rows over a sequence's latents. Every head meets a block of keys while it is in the cache: read once
// a head, 96 heads would read a long context 96 times.
#include <algorithm>
#include <cmath>
#include <limits>

#include "model/layers/mla.hpp"

namespace k3::layers {

namespace {

// A query is one head of one row; rows in order, and the heads of a row side by side.
struct Queries {
  const Compute& compute;
  const checkpoint::MlaWeights& weights;
  const RowGroup& group;
  HeadRange heads;
  std::size_t first, last;  // rows of the batch
  AttendScratch& s;

  std::size_t count() const { return (last - first) * heads.count; }
  // Keys that the row may see.
  std::size_t keys(std::size_t row) const { return group.sequence->committed() + row - group.first + 1; }
};

// Rows [first, first + count) of kv_b in float32. The product of a whole number and its scale rounds once, on every machine alike.
void widen(const Compute& compute, const checkpoint::Matrix& w, std::size_t first, std::size_t count, std::vector<float>& out) {
  const std::size_t columns = w.columns;
  out.resize(count * columns);
  const auto each = [&](const auto& value) {
    for (std::size_t row = 0; row < count; ++row) {
      for (std::size_t c = 0; c < columns; ++c) out[row * columns + c] = value(first + row, c);
    }
  };
  switch (w.precision) {
    case checkpoint::Precision::bf16:
      compute.kernels.widen_bf16(w.bf16() + first * columns, out.size(), out.data());
      return;
    case checkpoint::Precision::int8:
      each([&](std::size_t row, std::size_t c) { return static_cast<float>(w.int8()[row * columns + c]) * w.scale[row]; });
      return;
    case checkpoint::Precision::int4:
      each([&](std::size_t row, std::size_t c) {
        const unsigned byte = w.int4()[(row * columns + c) / 2];
        const auto q = static_cast<int>(c % 2 == 0 ? byte & 15U : byte >> 4U) - 8;
        return static_cast<float>(q) * w.scale[(row * columns + c) / 64];
      });
      return;
  }
}

std::size_t head_rows(const checkpoint::Config& config) { return config.nope_dim + config.v_dim; }

// query = [key half of kv_b, transposed, times the head's q ‖ q's shared part].
void make_queries(const Queries& q, const MlaScratch& mla) {
  const auto& config = q.compute.config;
  const std::size_t width = config.mla_cache_width(), rank = config.kv_rank, q_width = config.nope_dim + config.rope_dim;
  q.s.query.assign(q.count() * width, 0.0F);
  for (std::size_t h = 0; h < q.heads.count; ++h) {
    const std::size_t head = q.heads.first + h;
    widen(q.compute, q.weights.kv_b, head * head_rows(config), config.nope_dim, q.s.up);
    const std::size_t row_stride = config.mla_heads * q_width;
    const float* from = &mla.q[q.first * row_stride + head * q_width];
    float* to = &q.s.query[h * width];
    q.compute.kernels.accumulate_rows(from, row_stride, q.last - q.first, q.s.up.data(), rank, config.nope_dim, rank, to,
                                      q.heads.count * width);
    for (std::size_t row = 0; row < q.last - q.first; ++row) {
      std::copy_n(from + row * row_stride + config.nope_dim, config.rope_dim, to + row * q.heads.count * width + rank);
    }
  }
}

// Scores of one query in one block become weights, and what was summed before shrinks to the new maximum.
void reweigh(const Queries& q, std::size_t query, std::size_t keys) {
  const auto& config = q.compute.config;
  const float scale = 1.0F / std::sqrt(static_cast<float>(config.nope_dim + config.rope_dim));
  float* const scores = &q.s.scores[query * Sequence::block_rows];
  float* const latent = &q.s.latent[query * config.kv_rank];
  q.compute.kernels.scale(scale, scores, keys, scores);
  const float shrink = q.compute.kernels.online_softmax(scores, keys, &q.s.running_max[query], &q.s.running_sum[query]);
  q.compute.kernels.scale(shrink, latent, config.kv_rank, latent);
}

// Keys [start, start + keys) in float32.
const float* keys_of(const Queries& q, std::size_t index, std::size_t start, std::size_t keys) {
  const std::byte* const block = q.group.sequence->mla_block(index, start);
  if (q.group.sequence->latents() == LatentFormat::float32) return reinterpret_cast<const float*>(block);
  q.s.keys.resize(Sequence::block_rows * q.compute.config.mla_cache_width());
  q.compute.kernels.widen_bf16(reinterpret_cast<const std::uint16_t*>(block), keys * q.compute.config.mla_cache_width(),
                               q.s.keys.data());
  return q.s.keys.data();
}

// Keys [start, start + keys), for the rows that see any of them.
void attend_block(const Queries& q, const float* block, std::size_t start, std::size_t keys) {
  const auto& config = q.compute.config;
  const std::size_t width = config.mla_cache_width(), rank = config.kv_rank, heads = q.heads.count;
  // Later rows see more: those before `partial` see nothing of it, those from `whole` on all of it.
  std::size_t partial = q.first;
  while (q.keys(partial) <= start) ++partial;
  std::size_t whole = partial;
  while (whole < q.last && q.keys(whole) < start + keys) ++whole;

  const std::size_t from = (partial - q.first) * heads;
  q.compute.kernels.matmul_f32(block, keys, width, &q.s.query[from * width], q.count() - from, width,
                               &q.s.scores[from * Sequence::block_rows], Sequence::block_rows);
  const auto accumulate = [&](std::size_t query, std::size_t count, std::size_t seen) {
    for (std::size_t i = query; i < query + count; ++i) reweigh(q, i, seen);
    q.compute.kernels.accumulate_rows(&q.s.scores[query * Sequence::block_rows], Sequence::block_rows, count, block, width, seen,
                                      rank, &q.s.latent[query * rank], rank);
  };
  for (std::size_t row = partial; row < whole; ++row) accumulate((row - q.first) * heads, heads, q.keys(row) - start);
  if (whole < q.last) accumulate((whole - q.first) * heads, (q.last - whole) * heads, keys);
}

// context = value half of kv_b times the weighted sum of latents.
void write_context(const Queries& q, MlaScratch& mla) {
  const auto& config = q.compute.config;
  const std::size_t rank = config.kv_rank, row_stride = config.mla_heads * config.v_dim;
  for (std::size_t i = 0; i < q.count(); ++i) {
    float* const latent = &q.s.latent[i * rank];
    q.compute.kernels.scale(1.0F / q.s.running_sum[i], latent, rank, latent);
  }
  for (std::size_t h = 0; h < q.heads.count; ++h) {
    const std::size_t head = q.heads.first + h;
    widen(q.compute, q.weights.kv_b, head * head_rows(config) + config.nope_dim, config.v_dim, q.s.up);
    q.compute.kernels.matmul_f32(q.s.up.data(), config.v_dim, rank, &q.s.latent[h * rank], q.last - q.first, q.heads.count * rank,
                                 &mla.context[q.first * row_stride + head * config.v_dim], row_stride);
  }
}

}  // namespace

void attend(const Compute& compute, const checkpoint::MlaWeights& weights, std::size_t index, const RowGroup& group,
            HeadRange heads, std::size_t first, std::size_t last, MlaScratch& s) {
  const Queries q{compute, weights, group, heads, first, last, s.attend[ComputePool::thread_index()]};
  make_queries(q, s);
  q.s.latent.assign(q.count() * compute.config.kv_rank, 0.0F);
  q.s.scores.resize(q.count() * Sequence::block_rows);
  q.s.running_max.assign(q.count(), -std::numeric_limits<float>::infinity());
  q.s.running_sum.assign(q.count(), 0.0F);
  // Blocks at fixed absolute positions: how the rows were chunked into steps cannot change a bit.
  const std::size_t longest = q.keys(last - 1);
  for (std::size_t start = 0; start < longest; start += Sequence::block_rows) {
    const std::size_t keys = std::min(Sequence::block_rows, longest - start);
    attend_block(q, keys_of(q, index, start, keys), start, keys);
  }
  write_context(q, s);
}

}  // namespace k3::layers
