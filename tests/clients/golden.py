#!/usr/bin/python3
"""golden.py K3: `k3 logits` against float64: the golden vectors of tests/data/tiny, and checkpoints of other shapes whose vectors the numpy
reference makes on the spot. Chunk sizes, thread counts and expert budgets must not change a bit."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tools", "reference"))
sys.dont_write_bytecode = True

import checkpoint_presets  # noqa: E402
from k3_reference import Reference  # noqa: E402

LIMIT = 2e-5  # float32 arithmetic against float64; the noise is about 1e-6
VARIANTS = [["--chunk", "1"], ["--chunk", "7"], ["--chunk", "512"], ["--threads", "1", "--chunk", "5"], ["--threads", "2", "--chunk", "9"],
            ["--expert-gb", "0", "--chunk", "3"], ["--expert-gb", "0", "--pipe", "0"], ["--direct", "0"], ["--isa", "scalar", "--chunk", "11"]]


def run_k3(k3, model, ids, extra, folder):
    out, hidden = os.path.join(folder, "logits"), os.path.join(folder, "hidden")
    command = [k3, "logits", model, "--ids", ",".join(map(str, ids)), "--out", out, "--hidden", hidden, "--exact", "--bits", "16", *extra]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=300)
    return np.fromfile(out, "<f4"), np.fromfile(hidden, "<f4")


def relative_error(got, want):
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def check(k3, name, model, ids, logits, hidden):
    """Worst error over the logits and every layer; all variants bit for bit."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [run_k3(k3, model, ids, extra, folder) for extra in VARIANTS]
        inject = os.path.join(folder, "rows")
        embedding = Reference(model).vector("language_model.model.embed_tokens")
        embedding[ids].astype("<f4").tofile(inject)
        runs.append(run_k3(k3, model, ids, ["--inject", inject], folder))
    first_logits, first_hidden = runs[0][0].reshape(logits.shape), runs[0][1].reshape(hidden.shape)
    worst = max([relative_error(first_logits, logits)] + [relative_error(first_hidden[i], hidden[i]) for i in range(len(hidden))])
    different = [" ".join(extra) for extra, run in zip(VARIANTS + [["--inject"]], runs)
                 if not all(np.array_equal(a, b) for a, b in zip(run, runs[0]))]
    good = worst <= LIMIT and not different
    print(f"{'ok' if good else 'FAILED':7} {name}: worst relative error {worst:.2e}, {len(runs)} variants"
          + (f"; bits differ with {', '.join(different)}" if different else ", all the same bits"), flush=True)
    return good


def stored_vectors(folder):
    with open(os.path.join(folder, "golden.json"), encoding="utf-8") as f:
        golden = json.load(f)
    count = len(golden["tokens"])
    logits = np.fromfile(os.path.join(folder, "logits.f32"), "<f4").reshape(count, golden["vocab"])
    hidden = np.fromfile(os.path.join(folder, "hidden.f32"), "<f4").reshape(golden["layers"], count, golden["hidden"])
    return golden["tokens"], logits, hidden


def main():
    k3 = os.path.abspath(sys.argv[1])
    tiny = os.path.join(ROOT, "tests", "data", "tiny")
    ids, logits, hidden = stored_vectors(tiny)
    reference_logits, reference_hidden = Reference(os.path.join(tiny, "model")).forward(np.array(ids))
    drift = max(relative_error(reference_logits, logits), relative_error(reference_hidden, hidden))
    good = drift < 1e-6
    print(f"{'ok' if good else 'FAILED':7} the reference against the stored vectors: {drift:.2e}")
    good &= check(k3, "tests/data/tiny", os.path.join(tiny, "model"), ids, logits, hidden)
    for seed, (name, preset) in enumerate(sorted(checkpoint_presets.PRESETS.items()), 11):
        with tempfile.TemporaryDirectory() as model:
            checkpoint_presets.make(model, preset, seed)
            ids = np.random.default_rng(seed).integers(0, 256, 37).tolist()
            good &= check(k3, name, model, ids, *Reference(model).forward(np.array(ids)))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
