// The trunk in memory: everything but the routed experts, typed and named as the paper names it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/precision.hpp"
#include "model/checkpoint/residency.hpp"

namespace k3::checkpoint {

// A weight matrix [rows = outputs, columns = inputs], row-major. Points into memory that Weights owns, or has mapped.
struct Matrix {
  static constexpr std::uint32_t resident = ~std::uint32_t{0};

  const void* data = nullptr;    // nullptr: it stays on the drive
  const float* scale = nullptr;  // int8 [rows], int4 [rows, columns / 64]
  std::size_t rows = 0, columns = 0;
  Precision precision = Precision::bf16;
  std::uint32_t streamed = resident;  // its number in Weights::streamed

  const std::uint16_t* bf16() const { return static_cast<const std::uint16_t*>(data); }
  const std::int8_t* int8() const { return static_cast<const std::int8_t*>(data); }
  const std::uint8_t* int4() const { return static_cast<const std::uint8_t*>(data); }
};
// A small tensor widened to float32.
using Vector = std::vector<float>;

// score weights of an attention residual: norm.weight * proj.weight, folded at load (their only use is in one dot product).
struct ResidualWeights {
  Vector score;  // [hidden]
};

struct KdaWeights {
  Matrix q, k, v, g, o;           // [width, hidden] x4, [hidden, width]
  Vector q_conv, k_conv, v_conv;  // [width, 4]
  Matrix f_a, f_b, b;             // [head_dim, hidden], [width, head_dim], [heads, hidden]
  Vector a;                       // [heads]: exp(A_log), the zero padding cut off
  Vector dt_bias;                 // [width]
  Vector o_norm;                  // [head_dim]
};

struct MlaWeights {
  Matrix q_a, q_b, kv_a, g, o;
  Vector q_norm, kv_norm;
  // kv_b [heads * (nope + v), kv_rank] as stored: head h has rows [h*(nope+v), +nope) for keys, then v rows for values.
  Matrix kv_b;
};

struct MlpWeights {
  Matrix gate, up, down;
};

struct MoeWeights {
  Matrix router;       // [experts, hidden]
  Vector router_bias;  // [experts], selection only
  Matrix down, up;     // hidden -> latent, latent -> hidden
  Vector norm;         // [latent]
  MlpWeights shared;
};

struct LayerWeights {
  ResidualWeights attention_residual, mlp_residual;
  Vector input_norm, post_attention_norm;
  std::variant<KdaWeights, MlaWeights> attention;
  std::variant<MlpWeights, MoeWeights> mlp;
};

struct Weights {
  Matrix embedding, head;  // [vocabulary, hidden]
  ResidualWeights output_residual;
  Vector final_norm;
  std::vector<LayerWeights> layers;
  std::shared_ptr<const void> storage;  // what the matrices point into
  std::uint64_t bytes = 0;              // resident size of the trunk
  // In the order in which they are used; the embedding, of which single rows are, stands apart.
  std::vector<StreamedMatrix> streamed;
  std::optional<StreamedMatrix> streamed_embedding;
};

// `progress(done_bytes, total_bytes)` is called now and then from the calling thread; `threads` readers share the work.
// `max_layers` (0 = all) loads only the first layers, for --layers. A prepared matrix is taken as stored, or rounded further; more
// bits than are stored are an error (stored_matrix.hpp tells what there is). A mapped trunk is taken as stored or not at all
// (mapped_trunk.hpp).
Result<Weights> load_weights(const Checkpoint& checkpoint, unsigned threads, std::size_t max_layers,
                             const TrunkPrecision& precision, const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                             const Residency& residency = {});

}  // namespace k3::checkpoint
