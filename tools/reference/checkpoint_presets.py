"""Small random checkpoints in the released layout, in shapes that differ where an engine might have taken a number for granted."""
import json
import os

import numpy as np

import checkpoint_files as files

PREFIX = "language_model.model."

# mla: layers with latent attention, counted from 1. block: layers per attention-residual block.
PRESETS = {
    # Blocks of 4 in 13 layers: three complete ones and one in the making; three heads, which is no power of two.
    "tiny": dict(layers=13, hidden=64, dense=96, latent=32, inner=32, experts=12, chosen=4, shared=2, kda_heads=3, kda_width=32, heads=3,
                 nope=32, rope=16, value=32, q_rank=32, kv_rank=32, block=4, mla=[4, 8, 12, 13], scaling=1.0),
    # Other head counts for the two attentions, scaled experts, a width that is no multiple of 64.
    "scaled": dict(layers=7, hidden=96, dense=160, latent=64, inner=96, experts=20, chosen=5, shared=1, kda_heads=2, kda_width=48, heads=5,
                   nope=24, rope=8, value=40, q_rank=48, kv_rank=40, block=3, mla=[2, 5, 7], scaling=2.5),
    # A block of one layer, one head, two dense layers, all experts but one chosen.
    "narrow": dict(layers=5, hidden=48, dense=64, latent=32, inner=64, experts=4, chosen=3, shared=3, kda_heads=1, kda_width=16, heads=1,
                   nope=16, rope=16, value=16, q_rank=24, kv_rank=16, block=1, mla=[3], scaling=0.5, dense_layers=2),
    # More layers in a block than there are, only latent attention at the end, many experts of which one is chosen.
    "wide": dict(layers=6, hidden=160, dense=200, latent=96, inner=32, experts=40, chosen=1, shared=2, kda_heads=6, kda_width=32, heads=4,
                 nope=32, rope=32, value=64, q_rank=64, kv_rank=64, block=12, mla=[5, 6], scaling=1.0),
}
VOCABULARY = 512  # 256 bytes and 256 reserved names


def config_of(p):
    layers = p["layers"]
    quantisation = {
        "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "quantization_status": "compressed",
        "config_groups": {"group_0": {"format": "mxfp4-pack-quantized", "targets": ["Linear"], "input_activations": None, "weights": {
            "num_bits": 4, "type": "float", "group_size": 32, "strategy": "group", "symmetric": True, "scale_dtype": "torch.uint8",
            "dynamic": False}}}}
    text = {
        "model_type": "kimi_linear", "hidden_act": "situ", "activation_situ_beta": 4.0, "activation_situ_linear_beta": 25.0,
        "attn_res_block_size": p["block"], "first_k_dense_replace": p.get("dense_layers", 1), "hidden_size": p["hidden"],
        "intermediate_size": p["dense"], "kv_lora_rank": p["kv_rank"], "q_lora_rank": p["q_rank"], "qk_nope_head_dim": p["nope"],
        "qk_rope_head_dim": p["rope"], "v_head_dim": p["value"], "mla_use_nope": True, "mla_use_output_gate": True,
        "latent_moe_use_norm": True, "routed_expert_hidden_size": p["latent"], "moe_intermediate_size": p["inner"], "moe_layer_freq": 1,
        "moe_renormalize": True, "moe_router_activation_func": "sigmoid", "num_expert_group": 1, "topk_group": 1,
        "topk_method": "noaux_tc", "use_grouped_topk": True, "num_experts": p["experts"], "num_experts_per_token": p["chosen"],
        "num_shared_experts": p["shared"], "routed_scaling_factor": p["scaling"], "num_attention_heads": p["heads"],
        "num_key_value_heads": p["heads"], "num_hidden_layers": layers, "num_nextn_predict_layers": 0, "rms_norm_eps": 1e-05,
        "vocab_size": VOCABULARY, "max_position_embeddings": 4096, "tie_word_embeddings": False,
        "linear_attn_config": {
            "full_attn_layers": p["mla"], "kda_layers": [i for i in range(1, layers + 1) if i not in p["mla"]], "gate_lower_bound": -5.0,
            "head_dim": p["kda_width"], "num_heads": p["kda_heads"], "short_conv_kernel_size": 4, "use_full_rank_gate": True},
        "quantization_config": quantisation}
    return {"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3", "dtype": "bfloat16",
            "bos_token_id": VOCABULARY - 256, "eos_token_id": VOCABULARY - 254, "pad_token_id": VOCABULARY - 1,
            "tie_word_embeddings": False, "text_config": text}


class Shard:
    """Collects random tensors of one file."""

    def __init__(self, random):
        self.random, self.tensors = random, {}

    def linear(self, name, rows, columns, gain=1.0):
        values = self.random.standard_normal((rows, columns)) * gain / np.sqrt(columns)
        self.tensors[name + ".weight"] = ("BF16", files.to_bf16(values))

    def norm(self, name, size):
        self.tensors[name + ".weight"] = ("BF16", files.to_bf16(1 + 0.2 * self.random.standard_normal(size)))

    def floats(self, name, values):
        self.tensors[name] = ("F32", np.asarray(values, np.float32))

    def mxfp4(self, name, rows, columns):
        # e2m1 codes have a root mean square of about 2.6: aim at 1/sqrt(columns), with exponents spread over three octaves.
        middle = int(round(np.log2(1 / (2.6 * np.sqrt(columns))))) + 127
        self.tensors[name + ".weight_packed"] = ("U8", self.random.integers(0, 256, (rows, columns // 2), np.uint8))
        scales = self.random.integers(middle - 1, middle + 2, (rows, columns // 32))
        self.tensors[name + ".weight_scale"] = ("U8", scales.astype(np.uint8))


def add_mla(shard, name, p):
    hidden, heads = p["hidden"], p["heads"]
    shard.linear(name + "q_a_proj", p["q_rank"], hidden)
    shard.norm(name + "q_a_layernorm", p["q_rank"])
    shard.linear(name + "q_b_proj", heads * (p["nope"] + p["rope"]), p["q_rank"], 2.0)
    shard.linear(name + "kv_a_proj_with_mqa", p["kv_rank"] + p["rope"], hidden, 2.0)
    shard.norm(name + "kv_a_layernorm", p["kv_rank"])
    shard.linear(name + "kv_b_proj", heads * (p["nope"] + p["value"]), p["kv_rank"])
    shard.linear(name + "g_proj", heads * p["value"], hidden)
    shard.linear(name + "o_proj", hidden, heads * p["value"])


def add_kda(shard, name, p):
    hidden, heads, width = p["hidden"], p["kda_heads"], p["kda_heads"] * p["kda_width"]
    for letter in "qkv":
        shard.linear(f"{name}{letter}_proj", width, hidden)
        shard.floats(f"{name}{letter}_conv1d.weight", shard.random.standard_normal((width, 1, 4)) * 0.6)
    shard.linear(name + "f_a_proj", p["kda_width"], hidden)
    shard.linear(name + "f_b_proj", width, p["kda_width"])
    shard.linear(name + "b_proj", heads, hidden)
    shard.linear(name + "g_proj", width, hidden)
    shard.linear(name + "o_proj", hidden, width)
    rates = np.zeros(max(p["kda_width"], heads))  # padded with zeros, as released
    rates[:heads] = shard.random.uniform(-0.5, 1.0, heads)
    shard.floats(name + "A_log", rates)
    shard.floats(name + "dt_bias", shard.random.uniform(-4, 0.5, width))
    shard.floats(name + "o_norm.weight", 1 + 0.2 * shard.random.standard_normal(p["kda_width"]))


def add_mlp(shard, name, hidden, inner):
    shard.linear(name + "gate_proj", inner, hidden)
    shard.linear(name + "up_proj", inner, hidden)
    shard.linear(name + "down_proj", hidden, inner)


def add_moe(shard, name, p):
    hidden, latent, inner = p["hidden"], p["latent"], p["inner"]
    shard.linear(name + "gate", p["experts"], hidden)
    shard.floats(name + "gate.e_score_correction_bias", 0.1 * shard.random.standard_normal(p["experts"]))
    add_mlp(shard, name + "shared_experts.", hidden, p["shared"] * inner)
    shard.linear(name + "routed_expert_down_proj", latent, hidden)
    shard.linear(name + "routed_expert_up_proj", hidden, latent)
    shard.norm(name + "routed_expert_norm", latent)
    for expert in shard.random.permutation(p["experts"]):  # not in the order of their ids, as in a released shard
        shard.mxfp4(f"{name}experts.{expert}.w1", inner, latent)
        shard.mxfp4(f"{name}experts.{expert}.w2", latent, inner)
        shard.mxfp4(f"{name}experts.{expert}.w3", inner, latent)


def layer_shard(random, layer, p):
    shard, name = Shard(random), f"{PREFIX}layers.{layer}."
    add_attention = add_mla if layer + 1 in p["mla"] else add_kda
    add_attention(shard, name + "self_attn.", p)
    for part in ("self_attention_res", "mlp_res"):
        shard.norm(f"{name}{part}_norm", p["hidden"])
        shard.linear(f"{name}{part}_proj", 1, p["hidden"], 1.5)
    shard.norm(name + "input_layernorm", p["hidden"])
    shard.norm(name + "post_attention_layernorm", p["hidden"])
    if layer < p.get("dense_layers", 1):
        add_mlp(shard, name + "mlp.", p["hidden"], p["dense"])
    else:
        add_moe(shard, name + "block_sparse_moe.", p)
    return shard.tensors


def global_shard(random, p):
    shard = Shard(random)
    shard.norm(PREFIX + "output_attn_res_norm", p["hidden"])
    shard.linear(PREFIX + "output_attn_res_proj", 1, p["hidden"], 1.5)
    shard.linear("language_model.lm_head", VOCABULARY, p["hidden"], 3.0)
    shard.norm(PREFIX + "norm", p["hidden"])
    shard.linear(PREFIX + "embed_tokens", VOCABULARY, p["hidden"], np.sqrt(p["hidden"]))
    return shard.tensors


def make(directory, preset, seed):
    random = np.random.default_rng(seed)
    os.makedirs(directory, exist_ok=True)
    files.write_vocabulary(directory, [bytes([i]) for i in range(256)])
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config_of(preset), f, indent=1)
    shards = [layer_shard(random, layer, preset) for layer in range(preset["layers"])]
    files.write_shards(directory, shards + [global_shard(random, preset)])
