"""ckpt.pt -> a checkpoint in the released layout (model/): python3 export.py CKPT OUT   (OUT already has tiktoken.model)

Dtypes as released: linears, norms, embeddings BF16; conv1d, A_log (zero-padded), dt_bias, o_norm, correction bias F32;
routed experts MXFP4 (U8 nibbles, U8 ue8m0 scales). Training used the same roundings, so nothing is lost here."""
import json, os, struct, sys
import numpy as np, torch
from chat import SPECIAL, Tokenizer
from model import CFG, quant_mxfp4

HERE = os.path.dirname(os.path.abspath(__file__))


def bf16(t): return t.detach().bfloat16().view(torch.int16).numpy().view(np.uint16)


def write_safetensors(path, tensors):
    head, off, blobs = {}, 0, []
    for n, (dt, a) in tensors.items():
        b = np.ascontiguousarray(a).tobytes(); head[n] = {"dtype": dt, "shape": list(a.shape), "data_offsets": [off, off + len(b)]}; off += len(b); blobs.append(b)
    h = json.dumps(head, separators=(",", ":")).encode(); h += b" " * (-len(h) % 8)
    with open(path, "wb") as f: f.write(struct.pack("<Q", len(h)) + h + b"".join(blobs))
    return off


def config(c, base):
    # What is the same for every K3 comes from the bundled model's file, the sizes from the trained one.
    cfg = json.load(open(HERE + "/model/config.json")); t = cfg["text_config"]
    for d in (cfg, t): d.update(bos_token_id=base, eos_token_id=base + 2, pad_token_id=base + 255)
    cfg["media_placeholder_token_id"] = base + 21
    t.update(vocab_size=c["vocab"], hidden_size=c["H"], intermediate_size=c["dense"], num_hidden_layers=c["L"], attn_res_block_size=c["blk"],
             num_attention_heads=c["ah"], num_key_value_heads=c["ah"], q_lora_rank=c["ql"], kv_lora_rank=c["kvl"], qk_nope_head_dim=c["nope"],
             qk_rope_head_dim=c["rope"], v_head_dim=c["v"], num_experts=c["E"], num_experts_per_token=c["k"], num_shared_experts=c["nsh"],
             moe_intermediate_size=c["inter"], routed_expert_hidden_size=c["lat"], max_position_embeddings=32768)
    t["linear_attn_config"].update(num_heads=c["kh"], head_dim=c["kd"], full_attn_layers=c["full"], kda_layers=[i for i in range(1, c["L"] + 1) if i not in c["full"]])
    cfg["vision_config"].update(text_hidden_size=c["H"])                # no vision tensors are shipped
    return cfg


def main(src, out):
    d = torch.load(src, map_location="cpu"); w, c = d["w"], CFG; tok = Tokenizer(out + "/tiktoken.model"); base = tok.base
    assert base + 256 == c["vocab"]
    LM = "language_model."; P = LM + "model."; shards = [{} for _ in range(c["L"] + 1)]; rng = np.random.default_rng(0)
    for n, t in w.items():
        s = shards[int(n.split(".")[1])] if n.startswith("layers.") else shards[-1]; full = (LM if n.startswith("lm_head") else P) + n
        if "experts.w" in n and "shared" not in n: continue
        if n.endswith("A_log"): a = np.zeros(max(c["kd"], c["kh"]), np.float32); a[:c["kh"]] = t.numpy(); s[full] = ("F32", a)
        elif n.endswith(("dt_bias", "conv1d.weight", "o_norm.weight")): s[full] = ("F32", t.numpy().astype(np.float32))
        else: s[full] = ("BF16", bf16(t))
    for l in range(1, c["L"]):
        s, m = shards[l], f"layers.{l}.block_sparse_moe."; s[P + m + "gate.e_score_correction_bias"] = ("F32", d["bias"][l].numpy().astype(np.float32))
        q = [quant_mxfp4(w[m + "experts." + k])[1:] for k in ("w13", "w2")]; I = c["inter"]
        pack = lambda nib: (nib[:, 0::2] | nib[:, 1::2] << 4).numpy()
        for e in rng.permutation(c["E"]):                                # as released: not in id order
            for k, (nib, sc) in (("w1", (q[0][0][e, :I], q[0][1][e, :I])), ("w2", (q[1][0][e], q[1][1][e])), ("w3", (q[0][0][e, I:], q[0][1][e, I:]))):
                x = f"{P}{m}experts.{e}.{k}."; s[x + "weight_packed"] = ("U8", pack(nib)); s[x + "weight_scale"] = ("U8", sc.numpy())
    tot, wm = 0, {}
    for i, s in enumerate(shards):
        fn = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"; tot += write_safetensors(f"{out}/{fn}", s); wm.update({k: fn for k in s})
    json.dump({"metadata": {"total_size": tot}, "weight_map": dict(sorted(wm.items()))}, open(out + "/model.safetensors.index.json", "w"), indent=0)
    json.dump(config(c, base), open(out + "/config.json", "w"), indent=2)
    json.dump({"bos_token_id": base, "eos_token_id": base + 2, "pad_token_id": base + 255, "temperature": 1.0, "top_p": 1.0, "do_sample": True, "max_length": 32768}, open(out + "/generation_config.json", "w"), indent=2)
    dec = {str(i): {"content": s, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": i - base in SPECIAL and i - base not in (3, 4, 5)} for s, i in tok.special.items()}
    json.dump({"added_tokens_decoder": dec, "additional_special_tokens": [], "bos_token": "[BOS]", "eos_token": "[EOS]", "unk_token": "[UNK]", "pad_token": "[PAD]", "clean_up_tokenization_spaces": False,
               "extra_special_tokens": {}, "model_max_length": 32768, "tokenizer_class": "TikTokenTokenizer"}, open(out + "/tokenizer_config.json", "w"), indent=2)
    print("bytes", sum(os.path.getsize(f"{out}/{f}") for f in os.listdir(out)), "tensors", len(wm), "parameters", sum(t.numel() for t in w.values()))


if __name__ == "__main__": main(sys.argv[1], sys.argv[2])
