#include "model/checkpoint/synth_files.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/text/json.hpp"

namespace k3::checkpoint {
namespace {

constexpr std::size_t reserved_ids = 256;

struct Widths {
  std::int64_t hidden, dense_inner, latent, expert_inner, experts_per_token, kda_heads, kda_head_dim, mla_heads, nope, rope, v,
      q_rank, kv_rank, block, positions;
};
constexpr Widths released{7168, 33792, 3584, 3072, 16, 96, 128, 96, 128, 64, 128, 1536, 512, 12, 1048576};
// Three heads: not a power of two. A rope part that differs from the nope part.
constexpr Widths tiny{64, 96, 32, 32, 4, 3, 32, 3, 32, 16, 32, 32, 32, 4, 4096};

void member(json::Writer& out, std::string_view key, std::int64_t value) { out.key(key).integer(value); }
void member(json::Writer& out, std::string_view key, const char* value) { out.key(key).string(value); }
void flag(json::Writer& out, std::string_view key, bool value) { out.key(key).boolean(value); }

void layer_list(json::Writer& out, std::string_view key, std::size_t layers, bool full) {
  out.key(key).begin_array();
  for (std::size_t layer = 1; layer <= layers; ++layer) {
    if ((layer % 4 == 0 || layer == layers) == full) out.integer(static_cast<std::int64_t>(layer));
  }
  out.end_array();
}

void write_quantisation(json::Writer& out) {
  out.key("quantization_config").begin_object();
  member(out, "quant_method", "compressed-tensors");
  member(out, "format", "mxfp4-pack-quantized");
  member(out, "quantization_status", "compressed");
  out.key("config_groups").begin_object().key("group_0").begin_object();
  member(out, "format", "mxfp4-pack-quantized");
  out.key("weights").begin_object();
  member(out, "num_bits", 4);
  member(out, "type", "float");
  member(out, "group_size", 32);
  member(out, "strategy", "group");
  flag(out, "symmetric", true);
  flag(out, "dynamic", false);
  member(out, "scale_dtype", "torch.uint8");
  out.end_object().end_object().end_object().end_object();
}

void write_widths(json::Writer& out, const Widths& w) {
  member(out, "hidden_size", w.hidden);
  member(out, "intermediate_size", w.dense_inner);
  member(out, "routed_expert_hidden_size", w.latent);
  member(out, "moe_intermediate_size", w.expert_inner);
  member(out, "num_attention_heads", w.mla_heads);
  member(out, "num_key_value_heads", w.mla_heads);
  member(out, "qk_nope_head_dim", w.nope);
  member(out, "qk_rope_head_dim", w.rope);
  member(out, "v_head_dim", w.v);
  member(out, "q_lora_rank", w.q_rank);
  member(out, "kv_lora_rank", w.kv_rank);
  member(out, "attn_res_block_size", w.block);
  member(out, "max_position_embeddings", w.positions);
}

void write_constants(json::Writer& out) {
  member(out, "model_type", "kimi_linear");
  member(out, "hidden_act", "situ");
  out.key("activation_situ_beta").number(4.0).key("activation_situ_linear_beta").number(25.0);
  out.key("rms_norm_eps").number(1e-5).key("routed_scaling_factor").number(1.0);
  member(out, "moe_router_activation_func", "sigmoid");
  member(out, "topk_method", "noaux_tc");
  for (const auto* key : {"moe_layer_freq", "num_expert_group", "topk_group", "first_k_dense_replace"}) member(out, key, 1);
  out.key("num_nextn_predict_layers").integer(0);
  member(out, "num_shared_experts", 2);
  for (const auto* key : {"moe_renormalize", "use_grouped_topk", "mla_use_nope", "mla_use_output_gate", "latent_moe_use_norm"})
    flag(out, key, true);
  flag(out, "tie_word_embeddings", false);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) out += j <= count ? digits[group >> (18 - 6 * j) & 63U] : '=';
  }
  return out;
}

// The names of the released tokenizer_config.json, by distance from the first reserved id. The gaps have generated names.
const std::vector<std::pair<int, const char*>>& reserved_names() {
  static const std::vector<std::pair<int, const char*>> names = {{0, "[BOS]"},
                                                                 {1, "[EOS]"},
                                                                 {2, "<|end_of_msg|>"},
                                                                 {3, "<|open|>"},
                                                                 {4, "<|close|>"},
                                                                 {5, "<|sep|>"},
                                                                 {6, "[start_header_id]"},
                                                                 {7, "[end_header_id]"},
                                                                 {9, "[EOT]"},
                                                                 {18, "<|media_begin|>"},
                                                                 {19, "<|media_content|>"},
                                                                 {20, "<|media_end|>"},
                                                                 {21, "<|media_pad|>"},
                                                                 {65, "<osagent_mode>"},
                                                                 {254, "[UNK]"},
                                                                 {255, "[PAD]"}};
  return names;
}

}  // namespace

std::string synth_config(const SynthOptions& options, std::size_t vocabulary) {
  const Widths& w = options.tiny ? tiny : released;
  const auto ids = static_cast<std::int64_t>(vocabulary);
  std::string text;
  json::Writer out(text);
  out.begin_object().key("architectures").begin_array().string("KimiK3ForConditionalGeneration").end_array();
  member(out, "model_type", "kimi_k3");
  member(out, "dtype", "bfloat16");
  member(out, "bos_token_id", ids - 256);
  member(out, "eos_token_id", ids - 254);
  member(out, "pad_token_id", ids - 1);
  flag(out, "tie_word_embeddings", false);
  out.key("text_config").begin_object();
  write_constants(out);
  write_widths(out, w);
  member(out, "vocab_size", ids);
  member(out, "num_hidden_layers", static_cast<std::int64_t>(options.layers));
  member(out, "num_experts", static_cast<std::int64_t>(options.experts));
  member(out, "num_experts_per_token", std::min(w.experts_per_token, static_cast<std::int64_t>(options.experts)));
  out.key("linear_attn_config").begin_object();
  layer_list(out, "full_attn_layers", options.layers, true);
  layer_list(out, "kda_layers", options.layers, false);
  out.key("gate_lower_bound").number(-5.0);
  member(out, "head_dim", w.kda_head_dim);
  member(out, "num_heads", w.kda_heads);
  member(out, "short_conv_kernel_size", 4);
  flag(out, "use_full_rank_gate", true);
  out.end_object();
  write_quantisation(out);
  out.end_object().end_object();
  return text + "\n";
}

std::string synth_tiktoken(std::size_t vocabulary) {
  const std::size_t ranks = vocabulary - reserved_ids;
  std::string text;
  for (std::size_t rank = 0; rank < std::min<std::size_t>(ranks, 256); ++rank) {
    text += base64(std::string(1, static_cast<char>(rank))) + " " + std::to_string(rank) + "\n";
  }
  // Words in the order aa, ab, .. zz, aaa, aab, ..: a word less its last letter comes earlier, so byte-pair merging reaches it.
  constexpr std::size_t letters = 26, pairs = letters * letters;
  std::vector<std::string> words;
  for (std::size_t rank = 256; rank < ranks; ++rank) {
    const std::size_t word = rank - 256;
    std::string parent = word < pairs ? std::string(1, static_cast<char>('a' + word / letters)) : words[(word - pairs) / letters];
    words.push_back(parent + static_cast<char>('a' + word % letters));
    text += base64(words.back()) + " " + std::to_string(rank) + "\n";
  }
  return text;
}

std::string synth_tokenizer_config(std::size_t vocabulary) {
  std::string text;
  json::Writer out(text);
  out.begin_object().key("added_tokens_decoder").begin_object();
  for (const auto& [distance, name] : reserved_names()) {
    out.key(std::to_string(vocabulary - reserved_ids + static_cast<std::size_t>(distance))).begin_object();
    member(out, "content", name);
    for (const auto* key : {"lstrip", "normalized", "rstrip", "single_word"}) flag(out, key, false);
    // The structural markers 3, 4 and 5 are not "special" in the released file either.
    flag(out, "special", distance < 3 || distance > 5);
    out.end_object();
  }
  out.end_object();
  member(out, "bos_token", "[BOS]");
  member(out, "eos_token", "[EOS]");
  member(out, "unk_token", "[UNK]");
  member(out, "pad_token", "[PAD]");
  member(out, "tokenizer_class", "TikTokenTokenizer");
  flag(out, "clean_up_tokenization_spaces", false);
  out.end_object();
  return text + "\n";
}

}  // namespace k3::checkpoint
