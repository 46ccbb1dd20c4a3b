"""Gemel's order of samples: Fisher-Yates over Philox4x32-10."""


def philox(counter, key):
    """Four words of Philox4x32-10. @param counter  four words @param key  two"""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c3 ^ k1, a & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def stream_hash(text):
    out = 2166136261
    for byte in text.encode():
        out = (out ^ byte) * 16777619 & 0xFFFFFFFF
    return out


def words(seed, stream):
    """Gemel's sequential random words."""
    count, key = 0, (seed & 0xFFFFFFFF, seed >> 32)
    while True:
        yield from philox((count & 0xFFFFFFFF, count >> 32, stream, 0), key)
        count += 1


def permutation(size, seed):
    """Fisher-Yates, as Gemel shuffles."""
    source, order = words(seed, stream_hash("shuffle")), list(range(size))
    for i in range(size, 1, -1):
        threshold = -i % (1 << 32) % i
        while (product := next(source) * i) & 0xFFFFFFFF < threshold:
            pass
        j = product >> 32
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


def order_of(spec, size, epoch):
    """Of the samples of an epoch. @param epoch  from 0"""
    return permutation(size, spec["seed"] + epoch) if spec["shuffle"] == "on" else range(size)
