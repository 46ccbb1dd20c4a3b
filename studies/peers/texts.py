"""Texts as Gemel tokenized, padded and wrote them: inputs int64 [N, 2, T], ids and types, and labels int64 [N]."""
import os

MODELS = ("bert", "lstm_classifier", "gru_classifier")
CONFIGS = ("tiny", "mini", "small", "base")


def load(folder, prefix=""):
    import numpy as np

    ids, types, labels = (np.load(os.path.join(folder, f"{prefix}{what}.npy")) for what in ("ids", "types", "labels"))
    return np.stack((ids, types), 1), labels


def without_types(inputs):
    """As `gemel infer --input` takes ids: all of the first type."""
    return inputs * [[1], [0]]


def read(spec):
    """Training and validation, each (inputs, labels), as Gemel's --limit leaves them."""
    return load(spec["texts"]), load(spec["texts"], "val_")
