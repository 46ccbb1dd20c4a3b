#!/usr/bin/env python3
"""TensorFlow as a peer of `gemel study`: torchvision's models in TensorFlow's operators, by a list of steps that PyTorch traces in a process of its own. Default:
tf.function, [N, H, W, C]. Best: jit_compile=True. Texts are a BERT of our own."""
import os

import measured
import texts

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
EPSILON = 1e-8  # of Adam


def versions(spec):
    import tensorflow

    return {"tensorflow": tensorflow.__version__}


def with_corrected_epsilon(kind):
    """Keras adds epsilon to the root of the moment as it is summed, PyTorch and Gemel to that of the corrected one, which differs where gradients are small."""
    import keras

    class Optimizer(kind):
        def update_step(self, gradient, variable, learning_rate):
            step = keras.ops.cast(self.iterations + 1, variable.dtype)
            self.epsilon = EPSILON * keras.ops.sqrt(1 - keras.ops.power(keras.ops.cast(self.beta_2, variable.dtype), step))
            super().update_step(gradient, variable, learning_rate)

    return Optimizer


def optimizer_of(spec, weights):
    import keras

    name, rate, decay = spec["optimizer"], spec["lr"], spec.get("weight-decay") or 0.0
    if name == "adamw":
        optimizer = with_corrected_epsilon(keras.optimizers.AdamW)(rate, weight_decay=decay)
        if spec["model"] in texts.MODELS:  # of which biases and what normalises do not decay
            optimizer.exclude_from_weight_decay([w for w in weights if len(w.shape) < 2])
        return optimizer
    if decay:
        raise measured.Gap(f"weight-decay is {decay} with {name}; accepted: 0, or adamw")
    kinds = {"sgd": lambda: keras.optimizers.SGD(rate), "momentum": lambda: keras.optimizers.SGD(rate, momentum=spec.get("momentum") or 0.9),
             "adam": lambda: with_corrected_epsilon(keras.optimizers.Adam)(rate)}
    measured.refuse_unless("optimizer", name, ["adamw", *kinds])
    return kinds[name]()


def model_of(spec):
    import tensors

    weights = tensors.load(f"{spec['start']}/weights.safetensors")
    if spec["model"] in texts.MODELS:
        import tensorflow_bert

        measured.refuse_unless("model", spec["model"], ["bert"])
        measured.refuse_unless("config", spec["config"], texts.CONFIGS)
        return tensorflow_bert.Bert(weights, spec.get("dropout"))
    import tensorflow_model
    import trace_model

    return tensorflow_model.Model(trace_model.steps_of(spec), weights)


class TensorFlow:
    device = "cpu"

    def __init__(self, spec):
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(len(os.sched_getaffinity(0)))
        self.tf = tf
        model = model_of(spec)
        optimizer = None
        if measured.is_training(spec):  # else no moments are kept
            optimizer = optimizer_of(spec, model.weights)
            optimizer.build(model.weights)
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits

        def infer(x):
            return model(x, False)[0]

        def train(x, labels):
            with tf.GradientTape() as tape:
                main, *others = model(x, True)
                loss = tf.reduce_mean(cross_entropy(labels, main))
                for other in others:  # Inception's auxiliary classifier
                    loss += 0.4 * tf.reduce_mean(cross_entropy(labels, other))
            gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, model.weights)]  # also of the rows of a table, as Gemel's
            optimizer.apply(gradients, model.weights)
            return loss

        is_best = spec["mode"] == "best"
        self.infer_step, self.train_step = (tf.function(f, jit_compile=is_best) for f in (infer, train))

    def place(self, inputs, labels):
        is_picture = inputs.ndim == 4
        return self.tf.constant(inputs.transpose(0, 2, 3, 1) if is_picture else inputs), self.tf.constant(labels)

    def infer(self, batch):
        return self.infer_step(batch[0]).numpy()

    def train(self, batch):
        return float(self.train_step(*batch))


if __name__ == "__main__":
    measured.run(TensorFlow, versions)
