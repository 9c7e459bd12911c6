// Every key the maths uses: missing, of another value, contradictory.
#include "model/checkpoint/config.hpp"

#include <sstream>
#include <vector>

#include "model/checkpoint/synth_files.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/support.hpp"

using namespace k3;
using namespace k3::checkpoint;
using namespace k3::test;

namespace {

json::Value document() { return json::parse(slurp(tiny_model / "config.json")).value(); }

// The value at a path like "text_config.linear_attn_config.head_dim", and its parent's members.
std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> keys;
  std::istringstream in(path);
  for (std::string key; std::getline(in, key, '.');) keys.push_back(key);
  return keys;
}

json::Value& parent_of(json::Value& root, const std::vector<std::string>& keys) {
  json::Value* at = &root;
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) {
    bool found = false;
    for (auto& member : at->members) {
      if (member.key != keys[i]) continue;
      at = &member.value;
      found = true;
      break;
    }
    REQUIRE(found);
  }
  return *at;
}

Result<Config> parsed(const json::Value& root) {
  std::string text;
  json::Writer(text).value(root);
  return parse_config(text, "config.json");
}

Result<Config> without(const std::string& path) {
  auto root = document();
  const auto keys = split(path);
  auto& parent = parent_of(root, keys);
  const auto before = parent.members.size();
  std::erase_if(parent.members, [&](const json::Member& member) { return member.key == keys.back(); });
  REQUIRE(parent.members.size() + 1 == before);
  return parsed(root);
}

Result<Config> with(const std::string& path, const std::string& literal) {
  auto root = document();
  const auto keys = split(path);
  auto& parent = parent_of(root, keys);
  const auto value = json::parse(literal).value();
  bool found = false;
  for (auto& member : parent.members) {
    if (member.key != keys.back()) continue;
    member.value = value;
    found = true;
  }
  if (!found) parent.members.push_back({keys.back(), value});
  return parsed(root);
}

const std::string text = "text_config.", linear = "text_config.linear_attn_config.",
                  quantisation = "text_config.quantization_config.";

}  // namespace

TEST_CASE("the released widths are read as they are") {
  const auto config = parse_config(synth_config({.directory = {}, .layers = 93, .experts = 896}, 163840), "config.json");
  REQUIRE(config.has_value());
  CHECK(config->vocabulary == 163840);
  CHECK(config->hidden == 7168);
  CHECK(config->kda_width() == 12288);
  CHECK(config->mla_cache_width() == 576);
  CHECK(config->shared_inner() == 6144);
  CHECK(config->dense_layers == 1);
  CHECK(config->block_size == 12);
  CHECK(config->gate_lower_bound == -5.0F);
  CHECK(config->rms_eps == 1e-5F);
  CHECK(Config::mla_latent_eps == 1e-6F);
  CHECK(config->bos == 163584);
  CHECK(config->eos == 163586);
  CHECK(config->pad == 163839);
  CHECK(config->max_positions == 1048576);
  std::vector<std::size_t> mla;
  for (std::size_t layer = 0; layer < 93; ++layer) {
    if (!config->is_kda[layer]) mla.push_back(layer);
  }
  REQUIRE(mla.size() == 24);
  CHECK(mla[0] == 3);
  CHECK(mla[22] == 91);
  CHECK(mla[23] == 92);
}

TEST_CASE("every required key is missed by name") {
  std::vector<std::string> paths = {"model_type",
                                    "bos_token_id",
                                    "eos_token_id",
                                    "pad_token_id",
                                    "text_config.linear_attn_config",
                                    "text_config.quantization_config"};
  for (const char* key : {"vocab_size",
                          "hidden_size",
                          "num_hidden_layers",
                          "intermediate_size",
                          "first_k_dense_replace",
                          "num_experts",
                          "num_experts_per_token",
                          "num_shared_experts",
                          "moe_intermediate_size",
                          "routed_expert_hidden_size",
                          "attn_res_block_size",
                          "num_attention_heads",
                          "q_lora_rank",
                          "kv_lora_rank",
                          "qk_nope_head_dim",
                          "qk_rope_head_dim",
                          "v_head_dim",
                          "max_position_embeddings",
                          "routed_scaling_factor",
                          "rms_norm_eps",
                          "activation_situ_beta",
                          "activation_situ_linear_beta",
                          "hidden_act",
                          "moe_router_activation_func",
                          "moe_renormalize",
                          "mla_use_nope",
                          "mla_use_output_gate",
                          "latent_moe_use_norm"}) {
    paths.push_back(text + key);
  }
  for (const char* key : {"num_heads", "head_dim", "gate_lower_bound", "short_conv_kernel_size", "use_full_rank_gate", "kda_layers",
                          "full_attn_layers"}) {
    paths.push_back(linear + key);
  }
  for (const char* key : {"quant_method", "format", "config_groups", "config_groups.group_0", "config_groups.group_0.weights",
                          "config_groups.group_0.weights.num_bits", "config_groups.group_0.weights.type",
                          "config_groups.group_0.weights.group_size"}) {
    paths.push_back(quantisation + key);
  }
  for (const auto& path : paths) {
    INFO(path);
    const auto config = without(path);
    REQUIRE_FALSE(config.has_value());
    CHECK(contains(config.error().message, "missing"));
    CHECK(contains(config.error().message, split(path).back()));
    CHECK(config.error().file == "config.json");
    // null is as good as absent.
    CHECK_FALSE(with(path, "null").has_value());
  }
}

TEST_CASE("unsupported values are refused by key and value") {
  struct Row {
    std::string path, value;
  };
  const std::vector<Row> rows = {
      {"model_type", "\"kimi_k2\""},
      {"model_type", "7"},
      {"architectures", "[\"DeepseekV3ForCausalLM\"]"},
      {"architectures", "\"KimiK3ForConditionalGeneration\""},
      {"tie_word_embeddings", "true"},
      {"bos_token_id", "512"},
      {"eos_token_id", "-1"},
      {"pad_token_id", "[1]"},
      {text + "model_type", "\"kimi_moe\""},
      {text + "tie_word_embeddings", "true"},
      {text + "hidden_act", "\"silu\""},
      {text + "moe_router_activation_func", "\"softmax\""},
      {text + "moe_renormalize", "false"},
      {text + "mla_use_nope", "false"},
      {text + "mla_use_nope", "1"},
      {text + "mla_use_output_gate", "false"},
      {text + "latent_moe_use_norm", "false"},
      {text + "moe_layer_freq", "2"},
      {text + "num_expert_group", "8"},
      {text + "topk_group", "4"},
      {text + "topk_method", "\"greedy\""},
      {text + "num_nextn_predict_layers", "1"},
      {text + "num_key_value_heads", "1"},
      {text + "num_experts_per_token", "13"},
      {text + "num_experts_per_token", "0"},
      {text + "num_experts", "0"},
      {text + "num_experts", "99999999"},
      {text + "num_shared_experts", "0"},
      {text + "first_k_dense_replace", "14"},
      {text + "hidden_size", "0"},
      {text + "hidden_size", "-64"},
      {text + "hidden_size", "64.5"},
      {text + "hidden_size", "\"64\""},
      {text + "hidden_size", "18446744073709551615"},
      {text + "hidden_size", "1e30"},
      {text + "num_hidden_layers", "100000"},
      {text + "num_hidden_layers", "0"},
      {text + "vocab_size", "9223372036854775807"},
      {text + "moe_intermediate_size", "48"},
      {text + "routed_expert_hidden_size", "40"},
      {text + "attn_res_block_size", "0"},
      {text + "rms_norm_eps", "0"},
      {text + "rms_norm_eps", "-1e-5"},
      {text + "rms_norm_eps", "1e400"},
      {text + "routed_scaling_factor", "0"},
      {text + "activation_situ_beta", "0"},
      {text + "activation_situ_linear_beta", "\"25\""},
      {text + "linear_attn_config", "[]"},
      {linear + "num_heads", "0"},
      {linear + "head_dim", "100000000"},
      {linear + "short_conv_kernel_size", "3"},
      {linear + "use_full_rank_gate", "false"},
      {linear + "gate_lower_bound", "5.0"},
      {linear + "gate_lower_bound", "0"},
      {linear + "kda_layers", "[0,1,2,3,5,6,7,9,10,11]"},
      {linear + "kda_layers", "[1,2,3,4,5,6,7,9,10,11]"},
      {linear + "kda_layers", "[1,1,2,3,5,6,7,9,10,11]"},
      {linear + "kda_layers", "[1,2,3,5,6,7,9,10]"},
      {linear + "kda_layers", "[1,2,3,5,6,7,9,10,\"11\"]"},
      {linear + "kda_layers", "9"},
      {linear + "full_attn_layers", "[4,8,12,13,14]"},
      {quantisation + "quant_method", "\"gptq\""},
      {quantisation + "format", "\"nvfp4-pack-quantized\""},
      {quantisation + "config_groups.group_0.weights.num_bits", "8"},
      {quantisation + "config_groups.group_0.weights.type", "\"int\""},
      {quantisation + "config_groups.group_0.weights.group_size", "16"},
      {quantisation + "config_groups.group_0.weights.strategy", "\"channel\""},
      {quantisation + "config_groups.group_0.weights.symmetric", "false"},
      {quantisation + "config_groups.group_0.weights.dynamic", "true"},
      {quantisation + "config_groups.group_0.weights.scale_dtype", "\"torch.float8_e4m3fn\""},
  };
  for (const auto& [path, value] : rows) {
    INFO(path << " = " << value);
    const auto config = with(path, value);
    REQUIRE_FALSE(config.has_value());
    // A bad layer in one list may be reported on the other; all else names its own key.
    const bool layer_list = contains(path, "_layers") && contains(path, "linear");
    CHECK(contains(config.error().message, layer_list ? "_layers" : split(path).back()));
    CHECK_FALSE(config.error().expected.empty());
    CHECK_FALSE(config.error().got.empty());
  }
}

TEST_CASE("checks that need no key pass without it") {
  for (const char* key : {"moe_layer_freq", "num_expert_group", "topk_group", "topk_method", "num_nextn_predict_layers",
                          "tie_word_embeddings", "num_key_value_heads"}) {
    INFO(key);
    CHECK(without(text + key).has_value());
  }
  CHECK(without("architectures").has_value());
  CHECK(with(text + "routed_scaling_factor", "2.5")->routed_scaling == 2.5F);
}

TEST_CASE("a text-only config may stand at the root") {
  const auto root = document();
  auto text_only = *root.find("text_config");
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) text_only.members.push_back({key, *root.find(key)});
  CHECK(parsed(text_only).has_value());
  std::erase_if(text_only.members, [](const json::Member& member) { return member.key == "attn_res_block_size"; });
  const auto other = parsed(text_only);  // Kimi Linear
  REQUIRE_FALSE(other.has_value());
  CHECK(contains(other.error().describe(), "kimi_k3"));
}

TEST_CASE("another model's config is named as such") {
  const auto config = parse_config(R"({"model_type": "llama", "hidden_size": 4096})", "config.json");
  REQUIRE_FALSE(config.has_value());
  CHECK(contains(config.error().describe(), "llama"));
}

TEST_CASE("what is no JSON object is refused") {
  for (const char* bad : {"", "[]", "3", "{", "{\"model_type\":", "\xff"})
    CHECK_FALSE(parse_config(bad, "config.json").has_value());
}
