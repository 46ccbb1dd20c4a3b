#!/usr/bin/env python3
"""Makes what tests compare losses with: those of PyTorch and their gradients for logits, in double precision.

  pip install torch safetensors; tests/data/losses/make.py

Writes ctc.safetensors: CASE.logits [N, T, C], CASE.targets [N, L] padded with -1, CASE.input_lengths and CASE.target_lengths [N], CASE.none
[N], CASE.sum and CASE.mean [], and CASE.gradient, that of the mean for the logits; the case's name says the blank and whether infinity is 0.
And smoothing.safetensors: logits, labels, shares; for each of them and each smoothing the mean loss and its gradient.
"""
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent


def ctc_case(out, name, logits, targets, lengths, blank, zero_infinity):
    width = max(len(t) for t in targets)
    padded = torch.tensor([t + [-1] * (width - len(t)) for t in targets], dtype=torch.int64).reshape(len(targets), width)
    counts = torch.tensor([len(t) for t in targets])
    lengths = torch.tensor(lengths)
    x = logits.float().double().requires_grad_()
    for reduction in ("none", "sum", "mean"):
        loss = F.ctc_loss(x.log_softmax(2).transpose(0, 1), padded, lengths, counts, blank=blank, reduction=reduction, zero_infinity=zero_infinity)
        out[f"{name}.{reduction}"] = loss.detach().float()
    loss.backward()
    out.update({f"{name}.logits": x.detach().float(), f"{name}.targets": padded, f"{name}.input_lengths": lengths, f"{name}.target_lengths": counts,
                f"{name}.gradient": x.grad.float()})


def ctc():
    torch.manual_seed(5)
    out = {}
    ragged = [[1, 2, 2, 3], [4, 4], [], [3], [5, 1, 5]]
    ctc_case(out, "blank 0", torch.randn(5, 11, 6), ragged, [11, 6, 9, 1, 7], 0, False)
    ctc_case(out, "blank 3", 3 * torch.randn(3, 10, 4), [[0, 1, 1, 2, 0], [2], [1, 1, 1]], [10, 4, 8], 3, False)
    # More labels than frames, a repetition without room for a blank, no frames, and neither frames nor labels.
    impossible = [[1, 2, 1], [2, 2], [1], [], [2, 1]]
    frames = [2, 2, 0, 0, 4]
    ctc_case(out, "infinity", torch.randn(5, 5, 3), impossible, frames, 0, False)
    ctc_case(out, "infinity is 0", torch.randn(5, 5, 3), impossible, frames, 0, True)
    long = torch.randint(1, 10, (1, 70)).tolist()
    ctc_case(out, "long", 4 * torch.randn(1, 250, 10), long, [250], 0, False)
    save_file(out, str(HERE / "ctc.safetensors"))


def smoothing():
    torch.manual_seed(6)
    logits, labels, shares = 2 * torch.randn(7, 9), torch.randint(0, 9, (7,)), torch.rand(7, 9).softmax(1)
    out = {"logits": logits, "labels": labels, "shares": shares}
    for target in ("labels", "shares"):
        for amount in (0.0, 0.1, 1.0):
            x = logits.double().requires_grad_()
            loss = F.cross_entropy(x, out[target] if target == "labels" else shares.double(), label_smoothing=amount)
            loss.backward()
            out[f"{target} {amount} loss"] = loss.detach().float()
            out[f"{target} {amount} gradient"] = x.grad.float()
    save_file(out, str(HERE / "smoothing.safetensors"))


if __name__ == "__main__":
    ctc()
    smoothing()
