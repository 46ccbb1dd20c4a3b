"""A traced model (trace_model.py) in TensorFlow's own operators, on [N, H, W, C]."""
import numpy as np
import tensorflow as tf


def pair(value):
    return [value, value] if isinstance(value, int) else list(value)


def is_same(extent, size, stride, padding):
    """Whether TensorFlow's "SAME" is so much padding on both sides."""
    return max((-(-extent // stride) - 1) * stride + size - extent, 0) == 2 * padding


def padded(x, step, size, value=0.0):
    """What an operator takes: x, or x padded by an operator of its own, and "SAME" or "VALID". Paddings that an operator takes as numbers are no way
    on a CPU: with them a training step of resnet18 takes three times as long, XLA refuses them of a pool, and a mean has none."""
    if all(map(is_same, x.shape[1:3], size, pair(step["stride"]), pair(step["padding"]))):
        return x, "SAME"
    rows, columns = pair(step["padding"])
    return tf.pad(x, [[0, 0], [rows, rows], [columns, columns], [0, 0]], constant_values=value) if rows or columns else x, "VALID"


def max_pooling(step):
    size, stride = pair(step["kernel_size"]), pair(step["stride"])

    def run(x):
        x, padding = padded(x, step, size, -np.inf)
        return tf.nn.max_pool2d(x, size, stride, padding)

    return run


def mean_pooling(step):
    """Of windows that count their padding, as PyTorch's do and "SAME" does not."""
    (rows, columns), size, stride = pair(step["padding"]), pair(step["kernel_size"]), pair(step["stride"])
    around = [[0, 0], [rows, rows], [columns, columns], [0, 0]]
    return lambda x: tf.nn.avg_pool2d(tf.pad(x, around) if rows or columns else x, size, stride, "VALID")


def bins(extent, size):
    """[size, extent]: each row a mean over a part of the extent; parts may overlap."""
    out = np.zeros((size, extent), np.float32)
    for i in range(size):
        begin, end = i * extent // size, -(-(i + 1) * extent // size)
        out[i, begin:end] = 1 / (end - begin)
    return out


def adaptive_pooling(step):
    rows, columns = pair(step["output_size"])

    def run(x):
        _, height, width, _ = x.shape
        if rows == columns == 1:
            return tf.reduce_mean(x, [1, 2], keepdims=True)
        if (rows, columns) == (height, width):
            return x
        return tf.einsum("ih,jw,nhwc->nijc", bins(height, rows), bins(width, columns), x)

    return run


def flatten(x):
    """In PyTorch's order, which has channels outermost."""
    if len(x.shape) != 4:
        return x
    _, height, width, channels = x.shape
    return tf.reshape(x if height == width == 1 else tf.transpose(x, [0, 3, 1, 2]), [-1, height * width * channels])


def dropout(step):
    """Of elements; or, by stochastic depth, of samples."""

    def run(x, is_training):
        shape = [tf.shape(x)[0]] + [1] * (len(x.shape) - 1) if step["kind"] == "StochasticDepth" else None
        return tf.nn.dropout(x, step["p"], noise_shape=shape) if is_training and step["p"] > 0 else x

    return run


PLAIN = {"ReLU": tf.nn.relu, "ReLU6": tf.nn.relu6, "SiLU": tf.nn.silu, "Sigmoid": tf.sigmoid, "Identity": tf.identity, "add": tf.add, "mul": tf.multiply,
         "cat": lambda *parts: tf.concat(parts, -1), "flatten": flatten, "x": None}


class Model:
    def __init__(self, steps, state):
        """@param state  arrays by PyTorch's names and in its layouts"""
        self.weights, self.steps, self.layers = [], steps, {}  # weights: what is trained
        for step in steps["train"] + steps["infer"]:
            if step["kind"] not in (*PLAIN, "output") and step["name"] not in self.layers:
                prefix = step.get("layer", "") + "."
                arrays = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
                self.layers[step["name"]] = self.layer(step, arrays)

    def __call__(self, x, is_training):
        values = {}
        for step in self.steps["train" if is_training else "infer"]:
            inputs = [values[name] for name in step["inputs"]]
            if step["kind"] == "output":
                return inputs
            if step["kind"] == "x":
                values[step["name"]] = x
            elif step["kind"] in PLAIN:
                values[step["name"]] = PLAIN[step["kind"]](*inputs)
            else:
                values[step["name"]] = self.layers[step["name"]](*inputs, is_training)
        raise AssertionError("a list of steps without an output")

    def variable(self, array, axes=None, is_weight=True):
        own = {} if is_weight else {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.MEAN}  # of each replica
        out = tf.Variable(np.ascontiguousarray(array.transpose(axes) if axes else array), trainable=is_weight, **own)
        if is_weight:
            self.weights.append(out)
        return out

    def layer(self, step, arrays):
        """Of (x, is_training). @param arrays  its own, by name; no closure keeps them"""
        kinds = {"Conv2d": self.convolution, "BatchNorm2d": self.normalisation, "Linear": self.linear}
        if step["kind"] in kinds:
            return kinds[step["kind"]](step, arrays)
        if step["kind"] in ("Dropout", "StochasticDepth"):
            return dropout(step)
        pool = {"MaxPool2d": max_pooling, "AvgPool2d": mean_pooling, "AdaptiveAvgPool2d": adaptive_pooling}[step["kind"]](step)
        return lambda x, is_training: pool(x)

    def linear(self, step, arrays):
        weight, bias = self.variable(arrays["weight"], (1, 0)), self.variable(arrays["bias"])
        return lambda x, is_training: tf.nn.bias_add(tf.matmul(x, weight), bias)

    def convolution(self, step, arrays):
        stride, size = step["stride"], arrays["weight"].shape[2:]
        is_depthwise = step["groups"] > 1  # as many groups as channels, in torchvision's models of pictures here
        filters = self.variable(arrays["weight"], (2, 3, 0, 1) if is_depthwise else (2, 3, 1, 0))
        bias = self.variable(arrays["bias"]) if "bias" in arrays else None

        def run(x, is_training):
            x, padding = padded(x, step, size)
            y = tf.nn.depthwise_conv2d(x, filters, [1, *stride, 1], padding) if is_depthwise else tf.nn.conv2d(x, filters, stride, padding)
            return y if bias is None else tf.nn.bias_add(y, bias)

        return run

    def normalisation(self, step, arrays):
        normalise = tf.compat.v1.nn.fused_batch_norm
        scale, offset = self.variable(arrays["weight"]), self.variable(arrays["bias"])
        mean, variance = (self.variable(arrays[name], is_weight=False) for name in ("running_mean", "running_var"))

        def run(x, is_training):
            if not is_training:
                return normalise(x, scale, offset, mean, variance, step["eps"], is_training=False)[0]
            y, batch_mean, batch_variance = normalise(x, scale, offset, epsilon=step["eps"], is_training=True)
            mean.assign_add(step["momentum"] * (batch_mean - mean))
            variance.assign_add(step["momentum"] * (batch_variance - variance))
            return y

        return run
