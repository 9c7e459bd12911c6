#include "model/checkpoint/config.hpp"

#include <algorithm>
#include <cmath>

#include "model/checkpoint/config_keys.hpp"
#include "model/checkpoint/file_io.hpp"

namespace k3::checkpoint {
namespace {

// Generous bounds of single widths: the released ones times ten and more, yet any product of three still fits 64 bits.
constexpr std::int64_t max_width = std::int64_t{1} << 20;
constexpr std::int64_t max_heads = std::int64_t{1} << 12;
constexpr std::int64_t max_layers = 1024;
constexpr std::int64_t max_experts = std::int64_t{1} << 14;
constexpr std::int64_t max_vocabulary = std::int64_t{1} << 22;
constexpr std::int64_t max_context = std::int64_t{1} << 31;
constexpr std::uint64_t max_config_bytes = 16U << 20;

void read_widths(Keys& text, Config& c) {
  c.vocabulary = text.count("vocab_size", 1, max_vocabulary);
  c.hidden = text.count("hidden_size", 1, max_width);
  c.layers = text.count("num_hidden_layers", 1, max_layers);
  c.dense_inner = text.count("intermediate_size", 1, max_width);
  c.dense_layers = text.count("first_k_dense_replace", 0, max_layers);
  c.experts = text.count("num_experts", 1, max_experts);
  c.experts_per_token = text.count("num_experts_per_token", 1, max_experts);
  c.shared_experts = text.count("num_shared_experts", 1, 64);
  c.expert_inner = text.count("moe_intermediate_size", 32, max_width / 64);
  c.latent = text.count("routed_expert_hidden_size", 32, max_width);
  c.block_size = text.count("attn_res_block_size", 1, max_layers);
  c.mla_heads = text.count("num_attention_heads", 1, max_heads);
  c.q_rank = text.count("q_lora_rank", 1, max_width);
  c.kv_rank = text.count("kv_lora_rank", 1, max_width);
  c.nope_dim = text.count("qk_nope_head_dim", 1, max_heads);
  c.rope_dim = text.count("qk_rope_head_dim", 1, max_heads);
  c.v_dim = text.count("v_head_dim", 1, max_heads);
  c.max_positions = text.count("max_position_embeddings", 1, max_context);
  c.routed_scaling = text.real("routed_scaling_factor", 1e-6, 1e6);
  c.rms_eps = text.real("rms_norm_eps", 1e-12, 1e-1);
  c.situ_beta = text.real("activation_situ_beta", 1e-3, 1e6);
  c.situ_linear_beta = text.real("activation_situ_linear_beta", 1e-3, 1e6);
}

// What the maths is written for. Keys whose default in the released configuration class differs must be present; the others are
// checked where they occur.
void check_supported(Keys& text, const Config& c) {
  text.must_be("hidden_act", "situ");
  text.must_be("moe_router_activation_func", "sigmoid");
  text.must_be("moe_renormalize", true);
  text.must_be("mla_use_nope", true);
  text.must_be("mla_use_output_gate", true);
  text.must_be("latent_moe_use_norm", true);
  text.may_be("moe_layer_freq", 1);
  text.may_be("num_expert_group", 1);
  text.may_be("topk_group", 1);
  text.may_be("topk_method", "noaux_tc");
  text.may_be("num_nextn_predict_layers", 0);
  text.may_be("tie_word_embeddings", false);
  // One key/value head per head: the latent cache is expanded to all of them.
  text.may_be("num_key_value_heads", static_cast<std::int64_t>(c.mla_heads));
}

void read_quantisation(Keys& text, Keys& root) {
  // Derived checkpoints move the block to the root.
  Keys quantisation = text.has("quantization_config") ? text.object("quantization_config") : root.object("quantization_config");
  quantisation.must_be("quant_method", "compressed-tensors");
  quantisation.must_be("format", "mxfp4-pack-quantized");
  Keys weights = quantisation.object("config_groups").object("group_0").object("weights");
  weights.must_be("num_bits", 4);
  weights.must_be("type", "float");
  weights.must_be("group_size", 32);
  weights.may_be("strategy", "group");
  weights.may_be("symmetric", true);
  weights.may_be("dynamic", false);
  weights.may_be("scale_dtype", "torch.uint8");
}

void read_layer_kinds(Keys& linear, Config& c) {
  const auto kda = linear.list("kda_layers", max_layers);
  const auto full = linear.list("full_attn_layers", max_layers);
  if (linear.failed()) return;
  c.is_kda.assign(c.layers, false);
  std::vector<bool> named(c.layers, false);
  const auto mark = [&](const std::vector<std::int64_t>& list, const char* key, bool is_kda) {
    for (const auto one_based : list) {
      if (one_based < 1 || one_based > static_cast<std::int64_t>(c.layers)) {
        return linear.reject(key, std::to_string(one_based),
                             "layer numbers from 1 to num_hidden_layers, " + std::to_string(c.layers));
      }
      const auto layer = static_cast<std::size_t>(one_based - 1);
      if (named[layer])
        return linear.reject(key, std::to_string(one_based), "each layer once, in kda_layers or in full_attn_layers");
      named[layer] = true;
      c.is_kda[layer] = is_kda;
    }
  };
  mark(kda, "kda_layers", true);
  mark(full, "full_attn_layers", false);
  const auto missing = std::find(named.begin(), named.end(), false);
  if (missing == named.end()) return;
  linear.reject("kda_layers", "no layer " + std::to_string(missing - named.begin() + 1),
                "each layer once, in kda_layers or in full_attn_layers");
}

void read_linear_attention(Keys linear, Config& c) {
  c.kda_heads = linear.count("num_heads", 1, max_heads);
  c.kda_head_dim = linear.count("head_dim", 1, max_heads);
  c.gate_lower_bound = linear.real("gate_lower_bound", -100.0, -1e-3);
  linear.must_be("short_conv_kernel_size", static_cast<std::int64_t>(Config::conv_width));
  linear.must_be("use_full_rank_gate", true);
  read_layer_kinds(linear, c);
}

void read_special_tokens(Keys& root, Config& c) {
  const auto last = static_cast<std::int64_t>(c.vocabulary) - 1;
  c.bos = static_cast<std::int32_t>(root.count("bos_token_id", 0, last));
  c.eos = static_cast<std::int32_t>(root.count("eos_token_id", 0, last));
  c.pad = static_cast<std::int32_t>(root.count("pad_token_id", 0, last));
}

void check_relations(Keys& text, const Config& c) {
  const auto value = [](std::size_t number) { return std::to_string(number); };
  if (c.experts_per_token > c.experts)
    text.reject("num_experts_per_token", value(c.experts_per_token), "at most num_experts, " + value(c.experts));
  if (c.dense_layers > c.layers)
    text.reject("first_k_dense_replace", value(c.dense_layers), "at most num_hidden_layers, " + value(c.layers));
  // An MXFP4 row is made of whole groups of 32.
  if (c.expert_inner % 32 != 0) text.reject("moe_intermediate_size", value(c.expert_inner), "a multiple of 32");
  if (c.latent % 32 != 0) text.reject("routed_expert_hidden_size", value(c.latent), "a multiple of 32");
}

// The released file nests the text model in a vision-language model; a text-only one may hold it at the root.
Result<void> check_family(Keys& root) {
  if (root.has("text_config")) {
    root.must_be("model_type", "kimi_k3");
    root.may_hold("architectures", "KimiK3ForConditionalGeneration");
    root.may_be("tie_word_embeddings", false);
    root.object("text_config").may_be("model_type", "kimi_linear");
  } else {
    root.must_be("model_type", "kimi_linear");
    root.may_hold("architectures", "KimiLinearForCausalLM");
    // Kimi Linear has the same model_type and none of K3's residuals.
    if (!root.failed() && !root.has("attn_res_block_size"))
      root.reject("model_type", "kimi_linear without attn_res_block_size", "kimi_k3");
  }
  return root.result();
}

Result<Config> parse_object(const json::Value& document, const std::string& file_name) {
  KeyErrors errors{file_name, {}};
  Keys root(&document, "", errors);
  auto family = check_family(root);
  if (!family) return family.error();
  Keys text = root.has("text_config") ? root.object("text_config") : root;
  Config config;
  read_widths(text, config);
  if (text.failed()) return text.result().error();
  check_supported(text, config);
  check_relations(text, config);
  read_linear_attention(text.object("linear_attn_config"), config);
  read_quantisation(text, root);
  read_special_tokens(root, config);
  if (root.failed()) return root.result().error();
  return config;
}

}  // namespace

Result<Config> parse_config(std::string_view json, const std::string& file_name) {
  const auto document = json::parse(json);
  if (!document) {
    Error error = document.error();
    error.message = "config.json is not valid JSON: " + error.message;
    error.file = file_name;
    return error;
  }
  if (!document->is_object())
    return Error{.code = ErrorCode::corrupt, .message = "config.json is not a JSON object", .file = file_name};
  return parse_object(*document, file_name);
}

Result<Config> load_config(const std::filesystem::path& directory) {
  const auto path = directory / "config.json";
  auto text = read_text_file(path, max_config_bytes, 0);
  if (!text) {
    Error error = text.error();
    if (error.code == ErrorCode::not_found)
      error.message = "no config.json: " + directory.string() + " is not a checkpoint directory";
    return error;
  }
  return parse_config(text->bytes, path.string());
}

}  // namespace k3::checkpoint
