"""The models of texts that have a peer, with their sizes by configuration. It imports nothing, so a case is refused without PyTorch too."""

SIZES = {
    "bert": {"tiny": (128, 2, 2, 512), "mini": (256, 4, 4, 1024), "small": (512, 4, 8, 2048), "base": (768, 12, 12, 3072)},  # width, layers, heads, inner width
    "gpt2": {"tiny": (128, 2, 2), "mini": (256, 4, 4), "small": (512, 4, 8), "base": (768, 12, 12)},  # width, layers, heads
    "lstm_classifier": {"tiny": (128, 128, 1), "mini": (256, 256, 1), "small": (256, 256, 2), "base": (256, 512, 2)},  # embedding, hidden of a direction, layers
}
# sdpa: scaled_dot_product_attention; composed: products and a softmax; packed: sequences without their padding.
EAGER_MODES = {"bert": ("sdpa", "composed"), "gpt2": ("sdpa", "composed"), "lstm_classifier": ("packed",)}


def has_peer(model, config):
    return config in SIZES.get(model, ())


def accepted():
    """Such as "bert-tiny|mini, gpt2-base"."""
    return ", ".join(f"{model}-{'|'.join(configs)}" for model, configs in SIZES.items())
