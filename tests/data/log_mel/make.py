#!/usr/bin/env python3
"""Makes what tests/datasets/speech/log_mel_test.cpp compares with: sound, and its log-mel features by torch.stft, in double precision.

  pip install torch safetensors; tests/data/log_mel/make.py

Writes expected.safetensors. CASE.sound is float32 [samples]; CASE.features [frames, bands] is log(max(mel, 1e-10)), where mel is what
torchaudio.transforms.MelSpectrogram(sample_rate, n_fft, hop_length=hop, n_mels=bands) gives: its filters are those of
torchaudio.functional.melscale_fbanks with HTK's scale and no norm, written out below; but for odd n_fft and rates, where that places them
differently, at the transform's own frequencies.
"""
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent


def filters(n_fft, rate, bands):
    all_freqs = torch.arange(n_fft // 2 + 1, dtype=torch.float64) * rate / n_fft
    mel = 2595 * torch.log10(torch.tensor(1 + rate / 2 / 700, dtype=torch.float64))
    points = 700 * (10 ** (torch.linspace(0, mel.item(), bands + 2, dtype=torch.float64) / 2595) - 1)
    slopes = points[None, :] - all_freqs[:, None]
    width = points[1:] - points[:-1]
    return torch.clamp(torch.minimum(-slopes[:, :-2] / width[:-1], slopes[:, 2:] / width[1:]), min=0)


def features(sound, rate, n_fft, hop, bands):
    window = torch.hann_window(n_fft, dtype=torch.float64)
    spectrum = torch.stft(sound.double(), n_fft, hop, window=window, center=True, pad_mode="reflect", return_complex=True)
    return torch.clamp(spectrum.abs().square().T @ filters(n_fft, rate, bands), min=1e-10).log()


def main():
    torch.manual_seed(8)
    time = torch.arange(2400) / 16000
    chirp = 0.5 * torch.sin(2 * torch.pi * (200 + 8000 * time) * time) + 0.01 * torch.randn(2400)
    sounds = {"chirp": (chirp, 16000, 400, 160, 80), "short": (0.1 * torch.randn(201), 16000, 400, 160, 80), "slow": (torch.randn(900), 8000, 200, 80, 40),
              "odd": (torch.randn(1500), 11025, 275, 110, 40), "silence": (torch.zeros(500), 16000, 400, 160, 80)}
    sounds["silence"][0][450:] = 1e-4  # its first frame is at the floor
    out = {}
    for name, (sound, *rest) in sounds.items():
        out[f"{name}.sound"] = sound.contiguous()
        out[f"{name}.features"] = features(sound, *rest).float().contiguous()
    save_file(out, str(HERE / "expected.safetensors"))


if __name__ == "__main__":
    main()
