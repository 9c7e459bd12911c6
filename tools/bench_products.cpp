#include "tools/bench_products.hpp"

#include "tools/bench_split.hpp"

namespace k3::cli {
namespace {

using kernels::Block;
using kernels::Order;

// An expert, and one of the wide matrices that every token meets.
constexpr std::size_t latent = 3584, inner = 3072;
constexpr std::size_t trunk_outputs = 12288, trunk_columns = 7168;
constexpr float situ_beta = 4.0F, situ_linear_beta = 25.0F;

const std::uint8_t* bytes(const std::byte* p) { return reinterpret_cast<const std::uint8_t*>(p); }

// A matrix's part of an expert, and where its scales lie: at a sixteenth of its place.
constexpr std::size_t part_bytes = inner * latent / 2;
struct Expert {
  const std::uint8_t *packed, *scale;
  const std::uint8_t* packed_part(std::size_t part) const { return packed + part * part_bytes; }
  const std::uint8_t* scale_part(std::size_t part) const { return scale + part * (part_bytes / 16); }
};

struct ExpertRun {
  const kernels::Table& kernels;
  ComputePool& pool;
  BenchData& data;
  std::size_t rows;
  std::vector<float> x = bench_activations(rows * latent, 1.0F);
  // w1 and w3 in one piece: a row's gate, then all rows' ups.
  std::vector<float> gate_up = std::vector<float>(2 * rows * inner), out = std::vector<float>(rows * latent);
  std::vector<Block> rounded_x = std::vector<Block>(rows * kernels::blocks_of(latent));
  std::vector<Block> rounded_inner = std::vector<Block>(rows * kernels::blocks_of(inner));

  Expert next() {
    const std::byte* packed = data.codes.next(3 * part_bytes);
    return {bytes(packed), bytes(data.mxfp4_scales.data() + (packed - data.codes.memory().data()) / 16)};
  }
  void activate(std::size_t row) {
    float* gate = &gate_up[row * inner];
    kernels.situ(gate, &gate_up[(rows + row) * inner], inner, situ_beta, situ_linear_beta, gate);
  }

  void fast() {
    const Expert expert = next();
    pool.run(rows, [&](std::size_t row) {
      kernels.quantise(&x[row * latent], latent, Order::even_odd, &rounded_x[row * kernels::blocks_of(latent)], 0);
    });
    in_blocks(pool, 2, inner, latent, rows, [&](std::size_t part, std::size_t first, std::size_t count) {
      kernels.fast_mxfp4(expert.packed_part(part) + first * latent / 2, expert.scale_part(part) + first * latent / 32, count,
                         latent, rounded_x.data(), rows, &gate_up[part * rows * inner + first], inner);
    });
    pool.run(rows, [&](std::size_t row) {
      activate(row);
      kernels.quantise(&gate_up[row * inner], inner, Order::even_odd, &rounded_inner[row * kernels::blocks_of(inner)], 0);
    });
    in_blocks(pool, 1, latent, inner, rows, [&](std::size_t, std::size_t first, std::size_t count) {
      kernels.fast_mxfp4(expert.packed_part(2) + first * inner / 2, expert.scale_part(2) + first * inner / 32, count, inner,
                         rounded_inner.data(), rows, &out[first], latent);
    });
  }

  void exact() {
    const Expert expert = next();
    in_blocks(pool, 2, inner, latent, rows, [&](std::size_t part, std::size_t first, std::size_t count) {
      kernels.matmul_mxfp4(expert.packed_part(part) + first * latent / 2, expert.scale_part(part) + first * latent / 32, count,
                           latent, x.data(), rows, latent, &gate_up[part * rows * inner + first], inner);
    });
    pool.run(rows, [&](std::size_t row) { activate(row); });
    in_blocks(pool, 1, latent, inner, rows, [&](std::size_t, std::size_t first, std::size_t count) {
      kernels.matmul_mxfp4(expert.packed_part(2) + first * inner / 2, expert.scale_part(2) + first * inner / 32, count, inner,
                           gate_up.data(), rows, inner, &out[first], latent);
    });
  }
};

BenchCase expert_case(const BenchSetup& setup, BenchData& data, std::size_t rows, void (ExpertRun::*product)()) {
  auto run = std::shared_ptr<ExpertRun>(new ExpertRun{*setup.kernels, *setup.pool, data, rows});
  constexpr double weights = 3.0 * inner * latent;
  BenchCase out;
  out.rows = rows;
  out.bytes = weights / 2 + weights / 32;
  out.operations = 2 * weights * static_cast<double>(rows);
  out.run = [run, product] { (*run.*product)(); };
  return out;
}

struct TrunkRun {
  const kernels::Table& kernels;
  ComputePool& pool;
  BenchData& data;
  std::size_t rows;
  std::vector<float> x = bench_activations(rows * trunk_columns, 1.0F);
  std::vector<float> y = std::vector<float>(rows * trunk_outputs);
  std::vector<float> rounded = std::vector<float>(rows * trunk_columns);
  std::vector<Block> groups = std::vector<Block>(rows * kernels::blocks_of(trunk_columns));
  std::vector<float> row_scales = std::vector<float>(trunk_outputs, 0x1p-10F);

  void quantise(Order order) {
    pool.run(rows, [&](std::size_t row) {
      kernels.quantise(&x[row * trunk_columns], trunk_columns, order, &groups[row * kernels::blocks_of(trunk_columns)], 0);
    });
  }

  void int8() {
    const auto* w = reinterpret_cast<const std::int8_t*>(data.codes.next(trunk_outputs * trunk_columns));
    quantise(Order::natural);
    in_blocks(pool, 1, trunk_outputs, trunk_columns, rows, [&](std::size_t, std::size_t first, std::size_t count) {
      kernels.fast_int8(w + first * trunk_columns, &row_scales[first], count, trunk_columns, groups.data(), rows, &y[first],
                        trunk_outputs);
    });
  }

  void int4() {
    const std::byte* w = data.codes.next(trunk_outputs * trunk_columns / 2);
    const std::byte* place = data.int4_scales.data() + (w - data.codes.memory().data()) / 8;
    const auto* scale = reinterpret_cast<const float*>(place);
    quantise(Order::even_odd);
    in_blocks(pool, 1, trunk_outputs, trunk_columns, rows, [&](std::size_t, std::size_t first, std::size_t count) {
      kernels.fast_int4(bytes(w) + first * trunk_columns / 2, scale + first * trunk_columns / 64, count, trunk_columns,
                        groups.data(), rows, &y[first], trunk_outputs);
    });
  }

  const std::uint16_t* next_bf16() {
    return reinterpret_cast<const std::uint16_t*>(data.bf16.next(trunk_outputs * trunk_columns * sizeof(std::uint16_t)));
  }

  void bf16() {
    const std::uint16_t* w = next_bf16();
    pool.run(rows,
             [&](std::size_t row) { kernels.round_bf16(&x[row * trunk_columns], trunk_columns, &rounded[row * trunk_columns]); });
    in_blocks(pool, 1, trunk_outputs, trunk_columns, rows, [&](std::size_t, std::size_t first, std::size_t count) {
      kernels.fast_bf16(w + first * trunk_columns, count, trunk_columns, rounded.data(), rows, trunk_columns, &y[first],
                        trunk_outputs);
    });
  }

  void exact_bf16() {
    const std::uint16_t* w = next_bf16();
    in_blocks(pool, 1, trunk_outputs, trunk_columns, rows, [&](std::size_t, std::size_t first, std::size_t count) {
      kernels.matmul_bf16(w + first * trunk_columns, count, trunk_columns, x.data(), rows, trunk_columns, &y[first], trunk_outputs);
    });
  }
};

BenchCase trunk_case(const BenchSetup& setup, BenchData& data, std::size_t rows, double weight_bytes, void (TrunkRun::*product)()) {
  auto run = std::shared_ptr<TrunkRun>(new TrunkRun{*setup.kernels, *setup.pool, data, rows});
  constexpr double weights = static_cast<double>(trunk_outputs) * trunk_columns;
  BenchCase out;
  out.rows = rows;
  out.bytes = weights * weight_bytes;
  out.operations = 2 * weights * static_cast<double>(rows);
  out.run = [run, product] { (*run.*product)(); };
  return out;
}

}  // namespace

std::vector<float> bench_activations(std::size_t count, float size) {
  std::vector<float> out(count);
  std::uint64_t state = 1;
  for (float& value : out) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = size * (static_cast<float>(state >> 40) * 0x1p-23F - 1.0F);
  }
  return out;
}

BenchCase mxfp4_expert_case(const BenchSetup& setup, BenchData& data, std::size_t rows) {
  return expert_case(setup, data, rows, &ExpertRun::fast);
}
BenchCase exact_mxfp4_case(const BenchSetup& setup, BenchData& data, std::size_t rows) {
  return expert_case(setup, data, rows, &ExpertRun::exact);
}
BenchCase int8_case(const BenchSetup& setup, BenchData& data, std::size_t rows) {
  return trunk_case(setup, data, rows, 1.0, &TrunkRun::int8);
}
BenchCase int4_case(const BenchSetup& setup, BenchData& data, std::size_t rows) {
  return trunk_case(setup, data, rows, 0.5 + 4.0 / 64, &TrunkRun::int4);
}
BenchCase bf16_case(const BenchSetup& setup, BenchData& data, std::size_t rows) {
  return trunk_case(setup, data, rows, 2.0, &TrunkRun::bf16);
}
BenchCase exact_bf16_case(const BenchSetup& setup, BenchData& data, std::size_t rows) {
  return trunk_case(setup, data, rows, 2.0, &TrunkRun::exact_bf16);
}

}  // namespace k3::cli
