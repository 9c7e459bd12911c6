#include "model/checkpoint/tensor_list.hpp"

#include <initializer_list>

#include "model/checkpoint/safetensors.hpp"

namespace k3::checkpoint {
namespace {

ExpectedTensor expect(std::string name, DType dtype, std::initializer_list<std::uint64_t> shape) {
  ExpectedTensor tensor{.name = std::move(name), .dtype = dtype};
  for (const auto width : shape) tensor.shape[tensor.rank++] = width;
  return tensor;
}

class List {
 public:
  explicit List(std::string prefix) : prefix_(std::move(prefix)) {}
  void bf16(std::string_view name, std::initializer_list<std::uint64_t> shape) { add(name, DType::bf16, shape); }
  void f32(std::string_view name, std::initializer_list<std::uint64_t> shape) { add(name, DType::f32, shape); }
  ExpectedTensor& last() { return tensors_.back(); }
  std::vector<ExpectedTensor> take() { return std::move(tensors_); }

 private:
  void add(std::string_view name, DType dtype, std::initializer_list<std::uint64_t> shape) {
    tensors_.push_back(expect(prefix_ + std::string(name), dtype, shape));
  }
  std::string prefix_;
  std::vector<ExpectedTensor> tensors_;
};

void add_kda(List& list, const Config& c) {
  const std::uint64_t width = c.kda_width();
  for (const std::string name : {"q", "k", "v"}) {
    list.bf16("self_attn." + name + "_proj.weight", {width, c.hidden});
    list.f32("self_attn." + name + "_conv1d.weight", {width, 1, Config::conv_width});
  }
  list.bf16("self_attn.g_proj.weight", {width, c.hidden});
  list.bf16("self_attn.o_proj.weight", {c.hidden, width});
  list.bf16("self_attn.f_a_proj.weight", {c.kda_head_dim, c.hidden});
  list.bf16("self_attn.f_b_proj.weight", {width, c.kda_head_dim});
  list.bf16("self_attn.b_proj.weight", {c.kda_heads, c.hidden});
  list.f32("self_attn.A_log", {c.kda_heads});
  list.last().padded = true;
  list.f32("self_attn.dt_bias", {width});
  list.f32("self_attn.o_norm.weight", {c.kda_head_dim});
}

void add_mla(List& list, const Config& c) {
  list.bf16("self_attn.q_a_proj.weight", {c.q_rank, c.hidden});
  list.bf16("self_attn.q_a_layernorm.weight", {c.q_rank});
  list.bf16("self_attn.q_b_proj.weight", {c.mla_heads * (c.nope_dim + c.rope_dim), c.q_rank});
  list.bf16("self_attn.kv_a_proj_with_mqa.weight", {c.kv_rank + c.rope_dim, c.hidden});
  list.bf16("self_attn.kv_a_layernorm.weight", {c.kv_rank});
  list.bf16("self_attn.kv_b_proj.weight", {c.mla_heads * (c.nope_dim + c.v_dim), c.kv_rank});
  list.bf16("self_attn.g_proj.weight", {c.mla_heads * c.v_dim, c.hidden});
  list.bf16("self_attn.o_proj.weight", {c.hidden, c.mla_heads * c.v_dim});
}

void add_mlp(List& list, const Config& c, const std::string& prefix, std::uint64_t inner) {
  list.bf16(prefix + "gate_proj.weight", {inner, c.hidden});
  list.bf16(prefix + "up_proj.weight", {inner, c.hidden});
  list.bf16(prefix + "down_proj.weight", {c.hidden, inner});
}

void add_moe(List& list, const Config& c) {
  const std::string prefix = "block_sparse_moe.";
  list.bf16(prefix + "gate.weight", {c.experts, c.hidden});
  list.f32(prefix + "gate.e_score_correction_bias", {c.experts});
  list.bf16(prefix + "routed_expert_down_proj.weight", {c.latent, c.hidden});
  list.bf16(prefix + "routed_expert_norm.weight", {c.latent});
  list.bf16(prefix + "routed_expert_up_proj.weight", {c.hidden, c.latent});
  add_mlp(list, c, prefix + "shared_experts.", c.shared_inner());
}

}  // namespace

std::uint64_t ExpectedTensor::bytes() const {
  std::uint64_t product = dtype_bytes(dtype);
  for (std::size_t i = 0; i < rank; ++i) product *= shape[i];
  return product;
}

bool ExpectedTensor::matches(const Tensor& tensor) const {
  if (tensor.dtype != dtype || tensor.rank != rank) return false;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool longer_is_fine = padded && i == 0 && tensor.shape[i] > shape[i];
    if (tensor.shape[i] != shape[i] && !longer_is_fine) return false;
  }
  return true;
}

std::vector<ExpectedTensor> expected_layer(const Config& config, std::size_t layer) {
  List list("model.layers." + std::to_string(layer) + ".");
  for (const auto* name :
       {"input_layernorm.weight", "post_attention_layernorm.weight", "self_attention_res_norm.weight", "mlp_res_norm.weight"}) {
    list.bf16(name, {config.hidden});
  }
  for (const auto* name : {"self_attention_res_proj.weight", "mlp_res_proj.weight"}) list.bf16(name, {1, config.hidden});
  config.is_kda[layer] ? add_kda(list, config) : add_mla(list, config);
  config.is_dense(layer) ? add_mlp(list, config, "mlp.", config.dense_inner) : add_moe(list, config);
  return list.take();
}

std::vector<ExpectedTensor> expected_globals(const Config& config) {
  List list("");
  list.bf16("model.embed_tokens.weight", {config.vocabulary, config.hidden});
  list.bf16("lm_head.weight", {config.vocabulary, config.hidden});
  list.bf16("model.norm.weight", {config.hidden});
  list.bf16("model.output_attn_res_norm.weight", {config.hidden});
  list.bf16("model.output_attn_res_proj.weight", {1, config.hidden});
  return list.take();
}

std::array<ExpectedTensor, 6> expected_expert(const Config& config) {
  const std::uint64_t inner = config.expert_inner, latent = config.latent;
  // Two 4-bit codes a byte along the input; one scale byte for 32 of them.
  return {expect("w1.weight_packed", DType::u8, {inner, latent / 2}), expect("w1.weight_scale", DType::u8, {inner, latent / 32}),
          expect("w2.weight_packed", DType::u8, {latent, inner / 2}), expect("w2.weight_scale", DType::u8, {latent, inner / 32}),
          expect("w3.weight_packed", DType::u8, {inner, latent / 2}), expect("w3.weight_scale", DType::u8, {inner, latent / 32})};
}

std::string expert_prefix(std::size_t layer, std::size_t expert) {
  return "model.layers." + std::to_string(layer) + ".block_sparse_moe.experts." + std::to_string(expert) + ".";
}

}  // namespace k3::checkpoint
