#!/usr/bin/env python3
"""Makes what tests/engine/ops/attention_test.cpp compares with: PyTorch's scaled_dot_product_attention and its gradients, computed in double precision.

  pip install torch safetensors; tests/data/attention/make.py

Writes expected.safetensors: for each case query, key, value and bias as [samples, length, heads, width] and [samples, heads, queries, keys], the
result y, and the gradients of sum(y^2) for all four.
"""
import math
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent


def case(queries, keys, bias):
    n, h, e, v = 2, 3, 8, 5
    query, key, value = torch.randn(n, h, queries, e), torch.randn(n, h, keys, e), torch.randn(n, h, keys, v)
    given = [x.double().requires_grad_() for x in (query, key, value, bias)]
    y = torch.nn.functional.scaled_dot_product_attention(given[0], given[1], given[2], attn_mask=given[3].float().double().expand(n, h, queries, keys))
    (y * y).sum().backward()
    turned = lambda x: x.detach().float().transpose(1, 2).contiguous()
    out = {"bias": bias, "y": turned(y), "d_bias": given[3].grad.float()}
    for name, x in zip(("query", "key", "value"), given):
        out[name], out["d_" + name] = turned(x), turned(x.grad)
    return out


def main():
    torch.manual_seed(5)
    padded = torch.zeros(2, 1, 1, 9)
    padded[0, :, :, 6:] = -1e30
    never = torch.zeros(2, 1, 1, 7)
    never[1] = -1e30  # no key of the second sample counts
    causal = torch.full((6, 10), -math.inf).triu(10 - 6 + 1)[None, None]
    cases = {"padded": case(7, 9, padded), "never": case(4, 7, never), "causal": case(6, 10, causal), "learned": case(5, 5, torch.randn(1, 3, 5, 5))}
    save_file({f"{name}.{what}": x for name, tensors in cases.items() for what, x in tensors.items()}, str(HERE / "expected.safetensors"))


if __name__ == "__main__":
    main()
