"""BERT with a classifier over its first token in TensorFlow's own operators, from weights with Hugging Face's names and layouts (transformers has none since 5)."""
import numpy as np
import tensorflow as tf

WIDTH_OF_HEAD = 64
EPSILON = 1e-12
PADDING = 0


class Bert:
    """Of x int64 [N, 2, T], ids and types, and is_training: [logits]."""

    def __init__(self, weights, dropout):
        """@param weights  by name; a product's is transposed, as PyTorch keeps it @param dropout  None: 0.1"""
        self.weights, self.by_name = [], {}
        for name, array in weights.items():
            is_product = array.ndim == 2 and "embeddings" not in name
            self.by_name[name] = tf.Variable(np.ascontiguousarray(array.T) if is_product else array)
            self.weights.append(self.by_name[name])
        self.rate = 0.1 if dropout is None else dropout
        self.layers = sum(name.endswith("intermediate.dense.bias") for name in weights)

    def __call__(self, x, is_training):
        ids, types = x[:, 0], x[:, 1]
        bias = tf.where(ids == PADDING, np.float32(np.finfo(np.float32).min), 0.0)[:, None, None, :]
        values = self.embedded(ids, types, is_training)
        for i in range(self.layers):
            values = self.layer(f"bert.encoder.layer.{i}.", values, bias, is_training)
        pooled = self.dropped(tf.tanh(self.linear("bert.pooler.dense", values[:, 0])), is_training)
        return [self.linear("classifier", pooled)]

    def embedded(self, ids, types, is_training):
        tables = [self.by_name[f"bert.embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")]
        words = tf.gather(tables[0], ids) * tf.cast(ids != PADDING, tf.float32)[..., None]  # whose row stays 0
        out = words + tables[1][: ids.shape[1]] + tf.gather(tables[2], types)
        return self.dropped(self.normalised("bert.embeddings.LayerNorm", out), is_training)

    def layer(self, name, x, bias, is_training):
        attended = self.dropped(self.linear(name + "attention.output.dense", self.attention(name + "attention.self.", x, bias, is_training)), is_training)
        x = self.normalised(name + "attention.output.LayerNorm", attended + x)
        inner = tf.nn.gelu(self.linear(name + "intermediate.dense", x), approximate=False)
        return self.normalised(name + "output.LayerNorm", self.dropped(self.linear(name + "output.dense", inner), is_training) + x)

    def attention(self, name, x, bias, is_training):
        _, steps, width = x.shape

        def heads(kind):  # [N, heads, T, WIDTH_OF_HEAD]
            return tf.transpose(tf.reshape(self.linear(name + kind, x), [-1, steps, width // WIDTH_OF_HEAD, WIDTH_OF_HEAD]), [0, 2, 1, 3])

        scores = tf.matmul(heads("query"), heads("key"), transpose_b=True) / np.float32(np.sqrt(WIDTH_OF_HEAD)) + bias
        shares = self.dropped(tf.nn.softmax(scores), is_training)
        return tf.reshape(tf.transpose(tf.matmul(shares, heads("value")), [0, 2, 1, 3]), [-1, steps, width])

    def linear(self, name, x):
        weight = self.by_name[name + ".weight"]
        rows = tf.matmul(tf.reshape(x, [-1, weight.shape[0]]), weight)  # one product, however many axes
        return tf.reshape(tf.nn.bias_add(rows, self.by_name[name + ".bias"]), [-1, *x.shape[1:-1], weight.shape[1]])

    def normalised(self, name, x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + EPSILON) * self.by_name[name + ".weight"] + self.by_name[name + ".bias"]

    def dropped(self, x, is_training):
        return tf.nn.dropout(x, self.rate) if is_training and self.rate > 0 else x
