#!/usr/bin/env python3
"""Makes what tests/engine/ops/recurrent_test.cpp compares with: PyTorch's LSTM and GRU layers and their gradients, in double precision.

  pip install torch safetensors; tests/data/recurrent/make.py

Writes expected.safetensors. Of each case, the state dict as CASE.NAME; CASE.x [N, T, I], CASE.lengths, and where states are given CASE.h0, CASE.c0;
what comes of them as packed sequences, CASE.y, CASE.h_n, CASE.c_n; and with the gradients CASE.dy, CASE.dh_n, CASE.dc_n of these, CASE.dx, CASE.dh0,
CASE.dc0 and CASE.dNAME of each parameter.
"""
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = Path(__file__).resolve().parent
CASES = {  # layer, input, hidden; options; lengths; whether first states are given
    "lstm": (torch.nn.LSTM, 5, 6, {}, [7, 7, 7], False),
    "lstm of lengths": (torch.nn.LSTM, 4, 17, {}, [3, 9, 1, 6, 9], True),
    "lstm of layers": (torch.nn.LSTM, 3, 7, {"num_layers": 2, "bidirectional": True}, [2, 8, 5], True),
    "gru": (torch.nn.GRU, 5, 6, {}, [7, 7, 7], False),
    "gru of lengths": (torch.nn.GRU, 4, 17, {}, [3, 9, 1, 6, 9], True),
    "gru of layers": (torch.nn.GRU, 3, 7, {"num_layers": 2, "bidirectional": True}, [2, 8, 5], True),
}


def run(layer, x, lengths, states):
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    start = None if not states else tuple(states) if len(states) == 2 else states[0]
    y, last = layer(packed, start)
    return pad_packed_sequence(y, batch_first=True)[0], last if isinstance(last, tuple) else (last,)


def main():
    torch.manual_seed(11)
    out = {}
    for name, (kind, inputs, hidden, options, lengths, given) in CASES.items():
        layer = kind(inputs, hidden, batch_first=True, **options)
        state = {k: v.clone() for k, v in layer.state_dict().items()}
        rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        count = 2 if kind is torch.nn.LSTM else 1
        x = torch.randn(len(lengths), max(lengths), inputs)
        starts = [torch.randn(rows, len(lengths), hidden) for _ in range(count)] if given else []
        layer.double()
        wide = [t.double().requires_grad_() for t in [x, *starts]]
        y, last = run(layer, wide[0], lengths, wide[1:])
        results = dict(zip(["y", "h_n", "c_n"], [y, *last]))
        arriving = {k: torch.randn(v.shape) for k, v in results.items()}
        torch.autograd.backward(list(results.values()), [v.double() for v in arriving.values()])
        tensors = {**state, "x": x, "lengths": torch.tensor(lengths), **dict(zip(["h0", "c0"], starts))}
        tensors.update({k: v.detach().float() for k, v in results.items()})
        tensors.update({"d" + k: v for k, v in arriving.items()})
        tensors.update({"d" + k: v.grad.float() for k, v in zip(["x", "h0", "c0"], wide)})
        tensors.update({"d" + k: p.grad.float() for k, p in layer.named_parameters()})
        out.update({f"{name}.{k}": v.contiguous() for k, v in tensors.items()})
    save_file(out, str(HERE / "expected.safetensors"))


if __name__ == "__main__":
    main()
