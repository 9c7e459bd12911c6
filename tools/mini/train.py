"""Trains the mini model on the CPU: two data-parallel processes of one thread each (shared memory), Muon for the hidden
matrices, AdamW for the rest, aux-loss-free balancing of the experts, learning rate driven by wall time.

  python3 train.py OUT --minutes 60 [--procs 2] [--resume]     OUT/ckpt.pt is rewritten every 3 minutes
  python3 train.py OUT --from model --lr 1.5e-3                goes on from an exported checkpoint
"""
import argparse, os, random, sys, time
# keep freed buffers in the heap: page faults otherwise cost a tenth of the time
_env = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "268435456", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "8192"}
if __name__ == "__main__" and os.environ.get("MALLOC_TOP_PAD_") is None:
    os.environ.update(_env); os.execv(sys.executable, [sys.executable] + sys.argv)
import torch, torch.multiprocessing as mp
import torch.nn.functional as F
import corpus
from chat import Template, Tokenizer
from load import load
from model import Model

HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST = 768                                   # tokens of a sample: a few tools with their results fit


def batches(seed, tokens, rank=0, procs=1):
    """endless (ids [B,T], flat target positions, targets); tokens() per batch, lengths bucketed to multiples of 32"""
    R = random.Random(seed); tp = Template(Tokenizer(HERE + "/model/tiktoken.model"))
    while True:
        pool = [x for x in (corpus.encode(tp, *corpus.conversation(R)) for _ in range(600)) if len(x[0]) <= LONGEST]
        pool.sort(key=lambda x: len(x[0])); out, i = [], len(pool)
        while i > 0:
            T = (len(pool[i - 1][0]) - 1 + 31) // 32 * 32; B = max(1, round(tokens() / T)) * procs; b = pool[max(0, i - B):i][rank::procs]; i -= B
            if i < 0 and len(out): continue                                        # ragged rest of the shortest ones
            out.append((b, T))
        R.shuffle(out)
        for b, T in out:
            ids, tgt = torch.zeros(len(b), T, dtype=torch.long), torch.full((len(b), T), -1)
            for k, (s, m) in enumerate(b):
                s, m = torch.tensor(s), torch.tensor(m); ids[k, :len(s) - 1] = s[:-1]; tgt[k, :len(s) - 1] = torch.where(m[1:] > 0, s[1:], -1)
            sel = (tgt.view(-1) >= 0).nonzero()[:, 0]; tg = tgt.view(-1)[sel]; k = -len(sel) % 128   # few distinct GEMM shapes
            yield ids, F.pad(sel, (0, k)), F.pad(tg, (0, k), value=-100)


def orth(g, steps=5):
    """Newton-Schulz orthogonalisation of a batch of matrices, in bf16"""
    x = g.bfloat16(); tr = x.shape[1] > x.shape[2]
    if tr: x = x.transpose(1, 2).contiguous()
    x = x / (x.float().norm(dim=(1, 2), keepdim=True).bfloat16() + 1e-7)
    for _ in range(steps):
        a = torch.bmm(x, x.transpose(1, 2)); b = -4.7750 * a + 2.0315 * torch.bmm(a, a); x = 3.4445 * x + torch.bmm(b, x)
    return (x.transpose(1, 2) if tr else x).float()


class Opt:
    def __init__(self, m):
        self.m, self.t = m, 0; self.mu, self.ad = {}, []
        for n, p in m.w.items():
            if "experts.w" in n: s = (-1, 64, 64)
            elif p.dim() == 2 and not any(k in n for k in ("embed", "lm_head", "res_proj", "block_sparse_moe.gate", "b_proj")) or n.endswith("f_b_proj.weight") or n.endswith(("q_b_proj.weight", "kv_b_proj.weight")): s = (1,) + tuple(p.shape)
            else: self.ad.append(n); continue
            self.mu.setdefault(s[1:], []).append((n, s))
        self.s = {n: torch.zeros_like(p) for n, p in m.w.items()}; self.v = {n: torch.zeros_like(m.w[n]) for n in self.ad}

    @torch.no_grad()
    def step(self, grads, lr):
        self.t += 1; w = self.m.w
        for shape, items in self.mu.items():
            gs = []
            for n, s in items: self.s[n].mul_(0.95).add_(grads[n], alpha=0.05); gs.append(torch.lerp(grads[n], self.s[n], 0.95).view(s))
            u = orth(torch.cat(gs)); i = 0
            for (n, s), g in zip(items, gs):
                w[n].mul_(1 - 0.05 * lr).add_(u[i:i + len(g)].reshape(w[n].shape), alpha=-lr * 0.2 * max(shape) ** 0.5); i += len(g)
        ns = self.ad; g = [grads[n] for n in ns]
        nrm = torch.sqrt(sum((x * x).sum() for x in g)); c = min(1.0, 1.0 / (float(nrm) + 1e-6))
        for n, x in zip(ns, g):
            x = x * c; self.s[n].mul_(0.9).add_(x, alpha=0.1); self.v[n].mul_(0.98).addcmul_(x, x, value=0.02)
            w[n].addcdiv_(self.s[n] / (1 - 0.9 ** self.t), (self.v[n] / (1 - 0.98 ** self.t)).sqrt_().add_(1e-8), value=-lr)
        return float(nrm)


def worker(rank, a, bar, shared):
    torch.set_num_threads(1)
    m = Model(); opt = Opt(m); base, names = 0.0, list(m.w); moe = [l for l in range(1, m.c["L"])]
    if a.resume:
        d = torch.load(a.out + "/ckpt.pt"); base, opt.t = d["elapsed"], d["t"]
        for n in names: m.w[n].data.copy_(d["w"][n]); opt.s[n].copy_(d["s"][n])
        for n in opt.v: opt.v[n].copy_(d["v"][n])
        for l in moe: m.bias(l).copy_(d["bias"][l])
    elif a.start: load(m, a.start)
    if rank == 0: print("parameters", sum(p.numel() for p in m.parameters()), {k: len(v) for k, v in opt.mu.items()}, flush=True)
    frac = [base / (a.minutes * 60)]; size = [p.numel() for p in m.w.values()]; tot = sum(size)
    it = batches(a.run, lambda: a.tokens if frac[0] < 0.85 else 2 * a.tokens, rank, a.procs); t0 = last = time.time(); acc, toks = [], 0
    while frac[0] < 1:
        ids, sel, tgt = next(it); loss = F.cross_entropy(m(ids, sel), tgt); loss.backward()
        ext = torch.cat([torch.tensor([loss.item(), (time.time() - t0 + base) / (a.minutes * 60), float(ids.numel())])] + [m.load[l].float() for l in moe])
        flat = torch.cat([m.w[n].grad.view(-1) if m.w[n].grad is not None else torch.zeros(k) for n, k in zip(names, size)] + [ext])
        m.zero_grad(set_to_none=True)
        if a.procs > 1:
            mine = shared[rank]; mine[:flat.numel()] = flat; bar.wait(); flat = sum(s[:flat.numel()] for s in shared) / a.procs; bar.wait()
        grads = dict(zip(names, [g.view_as(m.w[n]) for g, n in zip(flat[:tot].split(size), names)])); ext = flat[tot:]
        f = frac[0] = float(ext[1]); lr = a.lr * min(1, opt.t / 100) * (1 if f < 0.4 else max(0.01, (1 - f) / 0.6))
        gn = opt.step(grads, lr); ld = ext[3:].view(len(moe), -1)
        for l, x in zip(moe, ld):
            b = m.bias(l); b += (0.002 if f < 0.7 else 0.0005 if f < 0.9 else 0) * torch.sign(x.mean() - x); b -= b.mean()
        acc.append(float(ext[0])); toks += float(ext[2]) * a.procs
        if rank == 0 and opt.t % 50 == 0:
            el = time.time() - t0
            print(f"step {opt.t} frac {f:.3f} loss {sum(acc) / len(acc):.4f} lr {lr:.5f} gnorm {gn:.2f} tok/s {toks / el:.0f} load max/mean {float((ld.max(1)[0] / ld.mean(1)).mean()):.2f} min/mean {float((ld.min(1)[0] / ld.mean(1)).mean()):.2f}", flush=True); acc = []
        if rank == 0 and (time.time() - last > 180 or f >= 1):
            last = time.time(); torch.save(dict(w={n: p.data for n, p in m.w.items()}, s=opt.s, v=opt.v, t=opt.t, elapsed=f * a.minutes * 60, bias={l: m.bias(l) for l in moe}), a.out + "/ckpt.tmp"); os.replace(a.out + "/ckpt.tmp", a.out + "/ckpt.pt")


if __name__ == "__main__":
    ap = argparse.ArgumentParser(); ap.add_argument("out"); ap.add_argument("--minutes", type=float, default=60); ap.add_argument("--procs", type=int, default=2)
    ap.add_argument("--resume", action="store_true")
    ap.add_argument("--from", dest="start", help="an exported checkpoint whose weights training starts from"); ap.add_argument("--lr", type=float, default=4e-3); ap.add_argument("--tokens", type=int, default=2048)
    a = ap.parse_args(); os.makedirs(a.out, exist_ok=True); a.out = os.path.abspath(a.out); a.run = int(time.time())
    bar, shared = mp.get_context("spawn").Barrier(a.procs), [torch.zeros(5_000_000).share_memory_() for _ in range(a.procs)]
    if a.procs == 1: worker(0, a, bar, shared)
    else: mp.spawn(worker, (a, bar, shared), a.procs)
