#!/usr/bin/env python3
"""Makes what tests/frontends/nn/conv1d_test.cpp compares with: PyTorch's Conv1d layers and their gradients, in double precision.

  pip install torch safetensors; tests/data/conv1d/make.py

Writes expected.safetensors. Of each case, CASE.weight and CASE.bias as a state dict has them, CASE.x [N, C, T], CASE.y [N, K, P], CASE.dy, and
the gradients CASE.dx, CASE.dweight, CASE.dbias.
"""
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
CASES = {  # in, out, kernel; N, T
    "plain": ((3, 4, 5), {}, (2, 12)),
    "strided": ((4, 6, 3), {"stride": 2, "padding": 1}, (3, 17)),
    "dilated": ((2, 5, 3), {"dilation": 4, "padding": 4}, (2, 15)),
    "grouped": ((6, 4, 3), {"groups": 2, "padding": 2, "bias": False}, (1, 9)),
    "depthwise": ((8, 8, 7), {"groups": 8, "padding": 3}, (2, 20)),
}


def main():
    torch.manual_seed(7)
    out = {}
    for name, (sizes, options, (n, t)) in CASES.items():
        layer = torch.nn.Conv1d(*sizes, **options)
        x, state = torch.randn(n, sizes[0], t), {k: v.clone() for k, v in layer.state_dict().items()}
        layer.double()
        wide = x.double().requires_grad_()
        y = layer(wide)
        dy = torch.randn(y.shape)
        y.backward(dy.double())
        out.update({f"{name}.{k}": v for k, v in state.items()})
        out.update({f"{name}.x": x, f"{name}.y": y.detach().float(), f"{name}.dy": dy, f"{name}.dx": wide.grad.float()})
        out.update({f"{name}.d{k}": p.grad.float() for k, p in layer.named_parameters()})
    save_file(out, str(HERE / "expected.safetensors"))


if __name__ == "__main__":
    main()
