#!/usr/bin/env python3
"""What the fast arithmetic costs: its logits against those of --exact, on transcripts that both are forced through.

    /usr/bin/python3 tools/measure/precision.py build/release/k3 [MODEL [TRANSCRIPTS]] [FLAG...]

Needs numpy. MODEL is `bundled` unless given; TRANSCRIPTS has a JSON object a line with `prompt_ids` and `generated_ids`.
Flags, such as `--bits 8`, are for what is compared; --exact stands for itself.
Prints the mean Kullback-Leibler divergence of the next token's distribution, the largest difference of any logit beside the
spread of logits it stands against, and how often the likeliest token is another.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]


def logits(k3, model, ids, folder, flags):
    out = pathlib.Path(folder) / "logits.f32"
    command = [k3, "logits", model, "--ids", ",".join(map(str, ids)), "--out", str(out), *flags]
    subprocess.run(command, check=True, capture_output=True)
    return numpy.fromfile(out, "<f4").reshape(len(ids), -1).astype(numpy.float64)


def log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - numpy.log(numpy.exp(x).sum(axis=1, keepdims=True))


def main():
    first_flag = next((i for i, word in enumerate(sys.argv) if word.startswith("--")), len(sys.argv))
    words, flags = sys.argv[1:first_flag], sys.argv[first_flag:]
    if not 1 <= len(words) <= 3:
        sys.exit(__doc__)
    k3 = words[0]
    model = words[1] if len(words) > 1 else "bundled"
    transcripts = words[2] if len(words) > 2 else ROOT / "tests/data/mini_transcripts.jsonl"
    divergences, drifts, spreads, changed = [], [], [], 0
    with tempfile.TemporaryDirectory() as folder, open(transcripts) as lines:
        for line in lines:
            case = json.loads(line)
            ids = case["prompt_ids"] + case["generated_ids"]
            exact = logits(k3, model, ids, folder, ["--exact"])
            fast = logits(k3, model, ids, folder, flags)
            p, q = log_softmax(exact), log_softmax(fast)
            divergences.append((numpy.exp(p) * (p - q)).sum(axis=1))
            drifts.append(numpy.abs(exact - fast).max())
            spreads.append(exact.std(axis=1))
            changed += int((exact.argmax(axis=1) != fast.argmax(axis=1)).sum())
    divergence = numpy.concatenate(divergences)
    print(f"positions                    {divergence.size}")
    print(f"mean KL divergence           {divergence.mean():.2e}")
    print(f"largest KL divergence        {divergence.max():.2e}")
    print(f"largest logit difference     {max(drifts):.3f}   (standard deviation of a row's logits {numpy.concatenate(spreads).mean():.2f})")
    print(f"likeliest token is another   {changed} times")


main()
