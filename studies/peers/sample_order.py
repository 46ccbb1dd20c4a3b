"""Gemel's order of samples: Fisher-Yates over Philox4x32-10."""
import numpy as np


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
