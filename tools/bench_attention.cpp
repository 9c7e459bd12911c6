// One token's attention in one layer of either kind.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/bench_products.hpp"

namespace k3::cli {
namespace {

constexpr std::size_t heads = 96;

struct KdaRun {
  static constexpr std::size_t dim = 128, state = dim * dim;
  static constexpr std::size_t state_bytes = heads * state * sizeof(float);
  const kernels::Table& kernels;
  ComputePool& pool;
  BenchData& data;
  std::vector<float> q = bench_activations(heads * dim, 0.1F), k = bench_activations(heads * dim, 0.1F);
  std::vector<float> v = bench_activations(heads * dim, 1.0F), decay = std::vector<float>(heads * dim, 0.95F);
  std::vector<float> out = std::vector<float>(heads * dim);

  // Committed state in, draft out, as a step does it.
  void run() {
    const auto* in = reinterpret_cast<float*>(data.floats.next(state_bytes));
    auto* draft = reinterpret_cast<float*>(data.floats.next(state_bytes));
    pool.run(heads, [&](std::size_t head) {
      const std::size_t at = head * dim;
      kernels.kda_step(in + head * state, &q[at], &k[at], &v[at], &decay[at], 0.5F, dim, dim, draft + head * state, &out[at]);
    });
  }
};

struct MlaRun {
  static constexpr std::size_t positions = 4096, rank = 512, width = rank + 64, block = 64;
  const kernels::Table& kernels;
  ComputePool& pool;
  BenchData& data;
  std::vector<float> query = bench_activations(heads * width, 1.0F);
  std::vector<float> context = std::vector<float>(heads * rank);

  // Some heads together, as the layer does it: a block of keys meets all of them while it is in the cache.
  static constexpr std::size_t together = 8;
  void attend(const float* cache, std::size_t head) {
    float* latent = &context[head * rank];
    const float scale = 1.0F / std::sqrt(192.0F);
    float running_max[together], running_sum[together] = {}, scores[together * block];
    std::fill_n(running_max, together, -std::numeric_limits<float>::infinity());
    std::fill_n(latent, together * rank, 0.0F);
    for (std::size_t start = 0; start < positions; start += block) {
      const float* keys = cache + start * width;
      kernels.matmul_f32(keys, block, width, &query[head * width], together, width, scores, block);
      for (std::size_t i = 0; i < together; ++i) {
        kernels.scale(scale, scores + i * block, block, scores + i * block);
        const float shrink = kernels.online_softmax(scores + i * block, block, &running_max[i], &running_sum[i]);
        kernels.scale(shrink, latent + i * rank, rank, latent + i * rank);
      }
      kernels.accumulate_rows(scores, block, together, keys, width, block, rank, latent, rank);
    }
    for (std::size_t i = 0; i < together; ++i) kernels.scale(1.0F / running_sum[i], latent + i * rank, rank, latent + i * rank);
  }
  void run() {
    const auto* cache = reinterpret_cast<const float*>(data.floats.next(positions * width * sizeof(float)));
    pool.run(heads / together, [&](std::size_t i) { attend(cache, i * together); });
  }
};

}  // namespace

BenchCase kda_step_case(const BenchSetup& setup, BenchData& data, std::size_t rows) {
  auto run = std::shared_ptr<KdaRun>(new KdaRun{*setup.kernels, *setup.pool, data});
  BenchCase out;
  out.rows = rows;
  out.bytes = 2.0 * KdaRun::state_bytes;
  out.operations = 7.0 * heads * KdaRun::state;  // decay, then multiply-adds for u, the state and the result
  out.run = [run] { run->run(); };
  return out;
}

// All heads share one cache, so only the first to come by finds it cold.
BenchCase mla_decode_case(const BenchSetup& setup, BenchData& data, std::size_t rows) {
  auto run = std::shared_ptr<MlaRun>(new MlaRun{*setup.kernels, *setup.pool, data});
  BenchCase out;
  out.rows = rows;
  out.bytes = static_cast<double>(MlaRun::positions * MlaRun::width) * sizeof(float);
  out.operations = 2.0 * heads * MlaRun::positions * (MlaRun::width + MlaRun::rank);
  out.run = [run] { run->run(); };
  return out;
}

}  // namespace k3::cli
