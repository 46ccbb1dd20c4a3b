"""Data sets of pictures as Gemel reads them, and its order of samples."""
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


def philox(counters, key):
    """Words uint32 [N, 4] of Philox4x32-10. @param counters  uint64 [N, 4], each below 2^32 @param key  two such numbers"""
    c, low = counters.T.copy(), np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = np.stack([(b >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]), b & low, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]), a & low])
        key = (key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF
    return c.T.astype(np.uint32)


def stream_hash(text):
    out = 2166136261
    for byte in text.encode():
        out = (out ^ byte) * 16777619 & 0xFFFFFFFF
    return out


def words(seed, stream):
    """Gemel's sequential random words."""
    count, chunk = 0, 1 << 14
    while True:
        counters = np.zeros((chunk, 4), np.uint64)
        counters[:, 0], counters[:, 2] = np.arange(count, count + chunk, dtype=np.uint64), stream
        yield from philox(counters, (seed & 0xFFFFFFFF, seed >> 32)).ravel().tolist()
        count += chunk


def permutation(size, seed):
    """Fisher-Yates, as Gemel shuffles."""
    source, order = words(seed, stream_hash("shuffle")), np.arange(size)
    for i in range(size, 1, -1):
        threshold = -i % (1 << 32) % i
        while (product := next(source) * i) & 0xFFFFFFFF < threshold:
            pass
        j = product >> 32
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


def order_of(spec, size, epoch):
    """Of the samples of an epoch. @param epoch  from 0"""
    return permutation(size, spec["seed"] + epoch) if spec["shuffle"] == "on" else np.arange(size)
