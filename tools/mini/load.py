"""An exported checkpoint back into the model that trains: the opposite of export.py.

The optimiser starts empty. Training sees the export's roundings, so the loss starts where the export's training ended."""
import os, sys
import numpy as np, torch
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))
from checkpoint_files import Tensors

LM = "language_model."


def experts(files, prefix, count):
    """The stacked w13 (w1 rows, then w3 rows) and w2 of a layer's routed experts."""
    of = lambda e, name: files.mxfp4(f"{prefix}experts.{e}.{name}")
    w13 = [np.concatenate([of(e, "w1"), of(e, "w3")]) for e in range(count)]
    return {"w13": np.stack(w13), "w2": np.stack([of(e, "w2") for e in range(count)])}


@torch.no_grad()
def load(model, directory):
    """Copies every weight of `directory` into `model`; shapes that differ fail in copy_()."""
    files, c = Tensors(directory), model.c
    put = lambda to, array: to.copy_(torch.tensor(np.asarray(array, np.float32)))
    for name, weight in model.w.items():
        if ".experts.w" in name: continue
        array = files.floats(LM + ("" if name.startswith("lm_head") else "model.") + name)
        put(weight.data, array[:c["kh"]] if name.endswith("A_log") else array)      # the file pads A_log with zeros
    for layer in range(1, c["L"]):
        moe = f"layers.{layer}.block_sparse_moe."
        for name, array in experts(files, LM + "model." + moe, c["E"]).items(): put(model.w[moe + "experts." + name].data, array)
        put(model.bias(layer), files.floats(LM + "model." + moe + "gate.e_score_correction_bias"))
