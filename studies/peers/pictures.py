"""Data sets of pictures as Gemel reads them."""
import os

import numpy as np

import measured

CIFAR10_MEAN, CIFAR10_DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def read(spec):
    """Training and validation, each (pictures float32 [N, C, H, W], labels int64 [N]); None: there is no validation."""
    for key, accepted in {"dataset": ["cifar10", "npy"], "augment": ["none"], "normalize": ["none", "standard"]}.items():
        measured.refuse_unless(key, spec[key], accepted)
    training, validation = {"cifar10": cifar10, "npy": npy}[spec["dataset"]](spec)
    return [part and tuple(array[: spec["limit"] or None] for array in part) for part in (training, validation)]


def npy(spec):
    def part(prefix):
        names = [os.path.join(spec["data"], f"{prefix}{what}.npy") for what in ("images", "labels")]
        return tuple(map(np.load, names)) if os.path.exists(names[0]) else None

    return part(""), part("val_")


def cifar10(spec):
    folder = spec["data"]
    if not os.path.isdir(folder):
        raise measured.Gap(f"data is {folder}; accepted: a folder of CIFAR-10's binary files")
    inner = os.path.join(folder, "cifar-10-batches-bin")
    folder = inner if os.path.isdir(inner) else folder

    def part(names):
        records = np.concatenate([np.fromfile(os.path.join(folder, name), np.uint8).reshape(-1, 3073) for name in names])
        pictures = records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / np.float32(255)
        if spec["normalize"] == "standard":
            pictures = (pictures - np.float32(CIFAR10_MEAN)[:, None, None]) / np.float32(CIFAR10_DEVIATION)[:, None, None]
        return pictures, records[:, 0].astype(np.int64)

    return part([f"data_batch_{i}.bin" for i in range(1, 6)]), part(["test_batch.bin"])
