#!/usr/bin/env python3
"""Makes what tests/frontends/models/recurrent_classifier_test.cpp compares with: the same classifiers written in PyTorch, and what they compute in double precision.

  pip install torch safetensors; tests/data/recurrent_classifier/make.py

Writes, for lstm and gru, KIND.weights.safetensors (float32) and KIND.expected.safetensors: ids, logits, and the gradients of the mean cross-entropy over labels under their
parameters' names. Rows of ids end with padding.
"""
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = Path(__file__).resolve().parent


class Classifier(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.embedding = torch.nn.Embedding(30, 6, padding_idx=0)
        layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind]
        self.add_module(kind, layer(6, 5, num_layers=2, bidirectional=True, batch_first=True))
        self.classifier = torch.nn.Linear(20, 3)

    def forward(self, ids):
        lengths = (ids != 0).sum(1)
        packed = pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        states = pad_packed_sequence(self.get_submodule(self.kind)(packed)[0], batch_first=True, total_length=ids.shape[1])[0]
        largest = states.masked_fill((ids == 0)[..., None], -1).max(1).values
        return self.classifier(torch.cat([largest, states.sum(1) / lengths[:, None]], 1))


def make(kind):
    torch.manual_seed(5)
    model = Classifier(kind)
    for p in model.parameters():
        p.data.add_(0.3 * torch.randn_like(p))
    model.embedding.weight.data[0] = 0
    save_file(dict(model.state_dict()), str(HERE / f"{kind}.weights.safetensors"))
    model.double()
    lengths, labels = [9, 4, 1, 7], torch.tensor([0, 2, 1, 2])
    ids = torch.zeros(4, 9, dtype=torch.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(1, 30, (length,))
    logits = model(ids)
    torch.nn.functional.cross_entropy(logits, labels).backward()
    out = {"ids": ids, "labels": labels, "logits": logits.detach().float()}
    for name, p in model.named_parameters():
        out["gradient." + name] = p.grad.float()
    save_file(out, str(HERE / f"{kind}.expected.safetensors"))


if __name__ == "__main__":
    for kind in ("lstm", "gru"):
        make(kind)
