#!/usr/bin/env python3
"""Makes what tests/engine/ops/generated/edge_numbers_test.cpp compares with: PyTorch's elementwise functions and gradients at the edges of float32 and at kinks.

  pip install torch==2.15.0 safetensors; tests/data/edges/make.py

Computed in double precision and rounded to float32 at the end, so that they are PyTorch's choices and not its roundings. Writes
expected.safetensors: x [n]; of each function of one number NAME.y and NAME.dx, the gradient of its sum; a and b [n n], all pairs of x; of each
function of two NAME.y, NAME.da and NAME.db. Names are those of Gemel's operators. PyTorch's loops over vectors and those over what is left choose
otherwise at some NaNs, so each result of the former is [2, n]: in a row of 64 alike, and alone. Functions of a row: rows [k, 3], and of each row, taken
alone, NAME.row_y and NAME.row_dx, the gradient of the sum of its values, of softmax, log_softmax and layer_norm weighted by 1, 2, 3.
"""
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
LARGEST, LEAST_NORMAL, LEAST = 3.4028234663852886e38, 1.1754943508222875e-38, 1.401298464324817e-45
POSITIVE = [0.0, LEAST, 1e-40, LEAST_NORMAL, 1e-30, 0.5, 1.0, 3.0, 6.0, 10.0, 88.0, 89.0, 104.0, 1e4, 1e30, LARGEST, float("inf"), float("nan")]
ONE = {
    "negate": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "square": torch.square, "sin": torch.sin, "cos": torch.cos, "erf": torch.erf, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "relu": torch.relu, "relu6": F.relu6, "silu": F.silu, "hard_swish": F.hardswish, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "clamp": lambda x: torch.clamp(x, -1.0, 0.5),
}
TWO = {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
       "power": torch.pow}

INF, NAN = float("inf"), float("nan")
ROWS = [[0.0, INF, 1.0], [-INF, -INF, -INF], [0.0, -INF, 1.0], [1e30, -1e30, 3e38], [0.0, NAN, 1.0], [INF, INF, 0.0], [5.0, 5.0, 5.0], [1e-40, 2e-40, 0.0],
        [88.0, -89.0, 1e4], [-1e4, 0.0, 1e4]]
WEIGHTS = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
FIRST, SHARES = torch.tensor([0]), torch.tensor([[0.5, 0.0, 0.5]], dtype=torch.float64)
OF_ROWS = {
    "softmax": lambda x: F.softmax(x, -1) * WEIGHTS, "log_softmax": lambda x: F.log_softmax(x, -1) * WEIGHTS,
    "layer_norm": lambda x: F.layer_norm(x, (3,), WEIGHTS), "max": lambda x: x.amax(-1), "mean": lambda x: x.mean(-1), "sum": lambda x: x.sum(-1),
    "max_pool2d": lambda x: F.max_pool1d(x, 3), "cross_entropy": lambda x: F.cross_entropy(x, FIRST),
    "cross_entropy_smoothed": lambda x: F.cross_entropy(x, FIRST, label_smoothing=0.1), "cross_entropy_of_shares": lambda x: F.cross_entropy(x, SHARES),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy_with_logits(x, SHARES, reduction="sum"),
}


def values_and_gradients(function, inputs):
    """The function's values, then the gradients of their sum."""
    leaves = [x.double().requires_grad_() for x in inputs]
    y = function(*leaves)
    y.sum().backward()
    return [t.float() for t in (y.detach(), *(x.grad for x in leaves))]


def both_ways(function, x):
    rows = values_and_gradients(function, [x.repeat_interleave(64)])
    alone = [values_and_gradients(function, [each]) for each in x.split(1)]
    return [torch.stack([r[::64], torch.cat(a)]) for r, a in zip(rows, zip(*alone))]


def main():
    # Among them the bounds of the clamp, -1 and 0.5, and the kinks of hard_swish, -3 and 3, and of relu6, 0 and 6.
    x = torch.tensor(POSITIVE + [-p for p in POSITIVE], dtype=torch.float32)
    a, b = (t.contiguous() for t in (x.repeat_interleave(len(x)), x.repeat(len(x))))
    out = {"x": x, "a": a, "b": b}
    for name, function in ONE.items():
        out.update(zip((f"{name}.y", f"{name}.dx"), both_ways(function, x)))
    for name, function in TWO.items():
        out.update(zip((f"{name}.y", f"{name}.da", f"{name}.db"), values_and_gradients(function, [a, b])))
    rows = torch.tensor(ROWS, dtype=torch.float32)
    out.update({"rows": rows, "argmax.row_y": rows.argmax(-1).float()})
    for name, function in OF_ROWS.items():
        each = [values_and_gradients(function, [row]) for row in rows.split(1)]
        out.update({f"{name}.row_{part}": torch.stack([r[i] for r in each]) for i, part in enumerate(("y", "dx"))})
    save_file({k: v.contiguous() for k, v in out.items()}, str(HERE / "expected.safetensors"))


if __name__ == "__main__":
    main()
