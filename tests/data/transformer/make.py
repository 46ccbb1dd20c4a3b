#!/usr/bin/env python3
"""Makes what tests/frontends/models/transformer_test.cpp compares with: small transformers over torch.nn.Transformer, and what they compute in double precision.

  pip install torch safetensors; tests/data/transformer/make.py

Writes expected.safetensors, for layers that normalise behind ("post.") and before ("pre."): weights (float32), named as Gemel's; source, target and labels,
-1 where there is none; the token that ends a text ("end"); the logits; the gradients of the mean cross-entropy over labels, smoothed by 0.1, under their parameters' names ("gradient."); the
losses of steps of plain gradient descent ("losses"); and what greedy decoding makes of the source, padded behind its end ("greedy").
"""
import math
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

HERE = Path(__file__).resolve().parent
VOCABULARY, WIDTH, HEADS, LAYERS, FEED_FORWARD, LENGTH = 20, 12, 3, 2, 20, 9
PADDING, BEGIN = 0, 1


class Translator(nn.Module):
    def __init__(self, norm_first):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        both = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, FEED_FORWARD, dropout=0.0, batch_first=True, norm_first=norm_first)
        self.encoder, self.decoder = both.encoder, both.decoder

    def embed(self, ids):
        places = torch.arange(ids.shape[1], dtype=torch.float64)[:, None]
        angles = places / 10000 ** (torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
        table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return self.embedding(ids) * math.sqrt(WIDTH) + table

    def forward(self, source, target):
        hidden = source == PADDING
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        memory = self.encoder(self.embed(source), src_key_padding_mask=hidden)
        x = self.decoder(self.embed(target), memory, tgt_mask=causal, tgt_key_padding_mask=target == PADDING, memory_key_padding_mask=hidden)
        return x @ self.embedding.weight.T

    def greedy(self, source, end=None):
        target = torch.full((source.shape[0], 1), BEGIN)
        while target.shape[1] <= LENGTH:
            following = self(source, target)[:, -1].argmax(-1, keepdim=True)
            if end is not None:
                following[(target[:, 1:] == end).any(1)] = PADDING
            target = torch.cat([target, following], 1)
        return target[:, 1:]


def texts(lengths, begins):
    out = torch.full((len(lengths), max(lengths)), PADDING)
    for row, length in zip(out, lengths):
        row[:length] = torch.randint(2, VOCABULARY, (length,))
        if begins:
            row[0] = BEGIN
    return out


def end_of(model, source):
    """A token that ends one translation, not at once, while another goes on; None where there is none."""
    endless = model.greedy(source)
    if (endless == PADDING).any():  # which the masks would hide
        return None
    for end in range(2, VOCABULARY):
        there = endless == end
        if there.any() and not there[:, 0].any() and not there.any(1).all():
            return end
    return None


def case(norm_first):
    model = Translator(norm_first)
    model.embedding.weight.data *= 0.1  # else each token is followed by itself
    for p in model.parameters():
        p.data += 0.2 * torch.randn_like(p)
    out = {"weights." + name: value.clone() for name, value in model.state_dict().items()}
    model.double()
    source, target = texts([7, 4, 6], False), texts([5, 8, 3], True)
    with torch.no_grad():
        end = end_of(model, source)
        if end is None:
            return None
        logits, greedy = model(source, target), model.greedy(source, end)
    labels = torch.full_like(target, -1)
    for row, following, length in zip(target, labels, [5, 8, 3]):
        following[: length - 1] = row[1:length]
        following[length - 1] = end

    def loss():
        return nn.functional.cross_entropy(model(source, target).flatten(0, 1), labels.flatten(), ignore_index=-1, label_smoothing=0.1)

    loss().backward()
    out |= {"source": source, "target": target, "labels": labels, "logits": logits.float(), "end": torch.tensor(end), "greedy": greedy}
    for name, p in model.named_parameters():
        out["gradient." + name] = p.grad.float()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05), []
    for _ in range(5):
        optimizer.zero_grad()
        now = loss()
        now.backward()
        optimizer.step()
        losses.append(now.detach())
    out["losses"] = torch.stack(losses).float()
    return out


def main():
    torch.manual_seed(6)
    cases = {}
    for name, norm_first in (("post", False), ("pre", True)):
        while not cases.get(name):  # until there is a token to end by
            cases[name] = case(norm_first)
    save_file({f"{name}.{what}": x.contiguous() for name, tensors in cases.items() for what, x in tensors.items()}, str(HERE / "expected.safetensors"))


if __name__ == "__main__":
    main()
