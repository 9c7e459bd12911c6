#!/usr/bin/env python3
"""The Kimi K3 text model in numpy, float64, written to be read; and a writer of small checkpoints in the released layout.

  k3_reference.py make DIR [--preset NAME] [--seed N]      config, shards, index and a byte vocabulary
  k3_reference.py run  DIR --ids 1,2,3 [--out DIR2]        logits.f32, hidden.f32 and golden.json beside each other

It shares no code with the engine, so that the two can only agree by both being right. Nothing here is fast.
"""
import argparse
import json
import os

import numpy as np

import checkpoint_files as files
from checkpoint_presets import PRESETS, make

PREFIX = "language_model.model."
LATENT_EPS = 1e-6  # the two MLA latent norms are built without an epsilon and so have their class default, not rms_norm_eps
NORMALISE_EPS = 1e-6


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + NORMALISE_EPS)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Reference:
    """One model; forward() computes all positions of one sequence at once."""

    def __init__(self, directory):
        self.tensors = files.Tensors(directory)
        with open(os.path.join(directory, "config.json"), encoding="utf-8") as f:
            self.config = json.load(f)["text_config"]
        self.eps = self.config["rms_norm_eps"]

    def linear(self, x, name):
        return x @ self.tensors.floats(name + ".weight").T

    def vector(self, name):
        return self.tensors.floats(name + ".weight")

    def situ(self, gate, up):
        beta, linear_beta = self.config["activation_situ_beta"], self.config["activation_situ_linear_beta"]
        return beta * np.tanh(gate / beta) * sigmoid(gate) * linear_beta * np.tanh(up / linear_beta)

    def mlp(self, x, name):
        return self.linear(self.situ(self.linear(x, name + "gate_proj"), self.linear(x, name + "up_proj")), name + "down_proj")

    def short_convolution(self, x, name, heads, width):
        """Depthwise over the last four positions, zeros before the first; then SiLU."""
        y = self.linear(x, name + "_proj")
        kernel = self.tensors.floats(name + "_conv1d.weight")[:, 0]
        padded = np.concatenate([np.zeros((3, y.shape[1])), y])
        mixed = sum(padded[i:i + len(x)] * kernel[:, i] for i in range(4))
        return silu(mixed).reshape(len(x), heads, width)

    def kda(self, x, name):
        """Kimi Delta Attention: a matrix per head that decays per key channel and is corrected by the delta rule."""
        linear_config = self.config["linear_attn_config"]
        heads, width, count = linear_config["num_heads"], linear_config["head_dim"], len(x)
        q = unit(self.short_convolution(x, name + "q", heads, width)) * width ** -0.5
        k = unit(self.short_convolution(x, name + "k", heads, width))
        v = self.short_convolution(x, name + "v", heads, width)

        raw = self.linear(self.linear(x, name + "f_a_proj"), name + "f_b_proj") + self.tensors.floats(name + "dt_bias")
        rate = np.exp(self.tensors.floats(name + "A_log")[:heads])[:, None]  # padded with zeros in the file
        decay = np.exp(linear_config["gate_lower_bound"] * sigmoid(rate * raw.reshape(count, heads, width)))
        beta = sigmoid(self.linear(x, name + "b_proj"))

        state, out = np.zeros((heads, width, width)), np.empty((count, heads, width))
        for t in range(count):
            state *= decay[t][:, :, None]
            error = v[t] - np.einsum("hk,hkv->hv", k[t], state)
            state += np.einsum("hk,hv->hkv", k[t], beta[t][:, None] * error)
            out[t] = np.einsum("hk,hkv->hv", q[t], state)
        normed = rms_norm(out, self.vector(name + "o_norm"), self.eps).reshape(count, heads * width)
        return self.linear(normed * sigmoid(self.linear(x, name + "g_proj")), name + "o_proj")

    def mla(self, x, name):
        """Multi-head latent attention without positions; the gate multiplies before the output projection."""
        c, count = self.config, len(x)
        heads, nope, rope, width = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        q = self.linear(rms_norm(self.linear(x, name + "q_a_proj"), self.vector(name + "q_a_layernorm"), LATENT_EPS), name + "q_b_proj")
        q = q.reshape(count, heads, nope + rope)
        latent, shared_key = np.split(self.linear(x, name + "kv_a_proj_with_mqa"), [c["kv_lora_rank"]], axis=1)
        kv = self.linear(rms_norm(latent, self.vector(name + "kv_a_layernorm"), LATENT_EPS), name + "kv_b_proj")
        k, v = np.split(kv.reshape(count, heads, nope + width), [nope], axis=2)

        scores = np.einsum("thd,shd->hts", q[..., :nope], k) + np.einsum("thd,sd->hts", q[..., nope:], shared_key)
        causal = np.tril(np.ones((count, count), bool))
        weights = softmax(np.where(causal, scores * (nope + rope) ** -0.5, -np.inf))
        context = np.einsum("hts,shd->thd", weights, v).reshape(count, heads * width)
        return self.linear(context * sigmoid(self.linear(x, name + "g_proj")), name + "o_proj")

    def experts_of(self, x, name):
        """Chosen by biased score, weighted by the score without the bias."""
        c = self.config
        scores = sigmoid(self.linear(x, name + "gate"))
        biased = scores + self.tensors.floats(name + "gate.e_score_correction_bias")
        chosen = np.argsort(-biased, -1, "stable")[:, :c["num_experts_per_token"]]
        weights = np.take_along_axis(scores, chosen, -1)
        return chosen, weights / (weights.sum(-1, keepdims=True) + 1e-20) * c["routed_scaling_factor"]

    def moe(self, x, name):
        chosen, weights = self.experts_of(x, name)
        latent = self.linear(x, name + "routed_expert_down_proj")
        total = np.zeros_like(latent)
        for expert in np.unique(chosen):
            rows, slots = np.nonzero(chosen == expert)
            w1, w2, w3 = (self.tensors.mxfp4(f"{name}experts.{expert}.w{i}") for i in (1, 2, 3))
            total[rows] += self.situ(latent[rows] @ w1.T, latent[rows] @ w3.T) @ w2.T * weights[rows, slots][:, None]
        routed = self.linear(rms_norm(total, self.vector(name + "routed_expert_norm"), self.eps), name + "routed_expert_up_proj")
        return routed + self.mlp(x, name + "shared_experts.")

    def mix(self, blocks, running, name):
        """Attention residual: a softmax over the snapshots and the running sum, by their normalised score."""
        candidates = np.stack(blocks + [running], 1)
        keys = candidates / np.sqrt((candidates * candidates).mean(-1, keepdims=True) + self.eps)
        weights = softmax(keys @ (self.vector(name + "_norm") * self.vector(name + "_proj")[0]))
        return np.einsum("tb,tbh->th", weights, candidates)

    def forward(self, ids):
        """Logits [tokens, vocabulary], and the running sum after every layer [layers, tokens, hidden]."""
        c = self.config
        running, blocks, trace = self.vector(PREFIX + "embed_tokens")[ids], [], []
        for layer in range(c["num_hidden_layers"]):
            name = f"{PREFIX}layers.{layer}."
            x = self.mix(blocks, running, name + "self_attention_res") if blocks else running
            begins_block = layer % c["attn_res_block_size"] == 0
            if begins_block:
                blocks.append(running)
            attention = self.kda if layer + 1 in c["linear_attn_config"]["kda_layers"] else self.mla  # the lists count from 1
            y = attention(rms_norm(x, self.vector(name + "input_layernorm"), self.eps), name + "self_attn.")
            running = y if begins_block else running + y
            x = rms_norm(self.mix(blocks, running, name + "mlp_res"), self.vector(name + "post_attention_layernorm"), self.eps)
            dense = layer < c["first_k_dense_replace"]
            running = running + (self.mlp(x, name + "mlp.") if dense else self.moe(x, name + "block_sparse_moe."))
            trace.append(running)
        x = rms_norm(self.mix(blocks, running, PREFIX + "output_attn_res"), self.vector(PREFIX + "norm"), self.eps)
        return self.linear(x, "language_model.lm_head"), np.stack(trace)


def run(directory, ids, out):
    logits, hidden = Reference(directory).forward(np.array(ids))
    print("likeliest next:", logits.argmax(-1).tolist())
    if out is None:
        return
    os.makedirs(out, exist_ok=True)
    logits.astype("<f4").tofile(os.path.join(out, "logits.f32"))
    hidden.astype("<f4").tofile(os.path.join(out, "hidden.f32"))
    with open(os.path.join(out, "golden.json"), "w", encoding="utf-8") as f:
        json.dump({"tokens": list(ids), "vocab": logits.shape[1], "layers": hidden.shape[0], "hidden": hidden.shape[2]}, f)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("make")
    command.add_argument("directory")
    command.add_argument("--preset", default="tiny", choices=sorted(PRESETS))
    command.add_argument("--seed", type=int, default=7)
    command = commands.add_parser("run")
    command.add_argument("directory")
    command.add_argument("--ids", required=True)
    command.add_argument("--out")
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.directory, PRESETS[arguments.preset], arguments.seed)
    else:
        run(arguments.directory, [int(i) for i in arguments.ids.split(",")], arguments.out)


if __name__ == "__main__":
    main()
