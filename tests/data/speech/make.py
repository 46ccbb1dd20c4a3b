#!/usr/bin/env python3
"""Makes what tests/frontends/models/deep_speech_test.cpp compares with: a small model of speech in PyTorch under the same names, and what it computes in double precision.

  pip install torch safetensors; tests/data/speech/make.py

Writes weights.safetensors (float32) and expected.safetensors: features [3, 30, 6], frames and transcripts (followed by -1); log-probabilities [3, 8, 5], how many
of them count, the losses, the gradients of their mean under the parameters' names, and the mean losses of five steps of SGD with a rate of 0.1.
"""
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import ctc_loss, hardtanh, log_softmax
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = Path(__file__).resolve().parent


class DeepSpeech(nn.Module):
    def __init__(self, bands, channels, hidden, layers, classes):
        super().__init__()
        self.conv = nn.ModuleList([nn.Conv1d(n, channels, 11, stride=2, padding=5) for n in (bands, channels)])
        self.norm = nn.ModuleList([nn.LayerNorm(channels) for _ in range(2)])
        self.rnn = nn.GRU(channels, hidden, layers, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, classes)

    def forward(self, x, frames):
        for conv, norm in zip(self.conv, self.norm):
            inside = torch.arange(x.shape[1])[None, :, None] < frames[:, None, None]
            x = torch.where(inside, x, torch.zeros_like(x))
            x = hardtanh(norm(conv(x.transpose(1, 2)).transpose(1, 2)), 0, 20)
            frames = (frames + 1) // 2
        packed = pack_padded_sequence(x, frames, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
        return log_softmax(self.fc(x), -1), frames


def main():
    torch.manual_seed(3)
    model = DeepSpeech(bands=6, channels=8, hidden=7, layers=2, classes=5)
    for name, p in model.named_parameters():
        if not name.startswith("norm"):
            p.data = 0.4 * torch.randn_like(p)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, str(HERE / "weights.safetensors"))
    model.double()
    features, frames = torch.randn(3, 30, 6), torch.tensor([30, 17, 9])
    transcripts = torch.tensor([[1, 2, 2, 4], [3, 1, 3, -1], [2, -1, -1, -1]])
    lengths = (transcripts >= 0).sum(1)

    def losses(log_probs, counted):
        return ctc_loss(log_probs.transpose(0, 1), transcripts.clamp(min=0), counted, lengths, reduction="none")

    log_probs, counted = model(features.double(), frames)
    each = losses(log_probs, counted)
    each.mean().backward()
    out = {"features": features, "frames": frames, "transcripts": transcripts, "log_probs": log_probs.detach().float(), "counted": counted, "losses": each.detach().float()}
    for name, p in model.named_parameters():
        out["gradient." + name] = p.grad.float()
    optimizer, steps = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(5):
        optimizer.zero_grad()
        loss = losses(*model(features.double(), frames)).mean()
        loss.backward()
        optimizer.step()
        steps.append(loss.item())
    out["steps"] = torch.tensor(steps)
    save_file(out, str(HERE / "expected.safetensors"))


if __name__ == "__main__":
    main()
