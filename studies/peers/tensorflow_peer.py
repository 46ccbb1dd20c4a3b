#!/usr/bin/env python3
"""TensorFlow as a peer of `gemel study`: torchvision's models in TensorFlow's operators, by a list of steps that PyTorch traces in a process of its own. Default:
tf.function, [N, H, W, C]. Best: jit_compile=True."""
import os

import measured

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def versions():
    import tensorflow

    return {"tensorflow": tensorflow.__version__}


def optimizer_of(spec):
    import keras

    if spec.get("weight-decay"):
        raise measured.Gap(f"weight-decay is {spec['weight-decay']}; accepted: 0")
    name, rate = spec["optimizer"], spec["lr"]
    kinds = {"sgd": lambda: keras.optimizers.SGD(rate), "momentum": lambda: keras.optimizers.SGD(rate, momentum=spec.get("momentum") or 0.9),
             "adam": lambda: keras.optimizers.Adam(rate, epsilon=1e-8)}
    measured.refuse_unless("optimizer", name, kinds)
    return kinds[name]()


class TensorFlow:
    device = "cpu"

    def __init__(self, spec):
        import tensorflow as tf

        import tensorflow_model
        import tensors
        import trace_model

        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(len(os.sched_getaffinity(0)))
        self.tf = tf
        model = tensorflow_model.Model(trace_model.steps_of(spec), tensors.load(f"{spec['start']}/weights.safetensors"))
        optimizer = optimizer_of(spec)
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
            optimizer.apply(tape.gradient(loss, model.weights), model.weights)
            return loss

        is_best = spec["mode"] == "best"
        self.infer_step, self.train_step = (tf.function(f, jit_compile=is_best) for f in (infer, train))

    def place(self, inputs, labels):
        return self.tf.constant(inputs.transpose(0, 2, 3, 1)), self.tf.constant(labels)

    def infer(self, batch):
        return self.infer_step(batch[0]).numpy()

    def train(self, batch):
        return float(self.train_step(*batch))


if __name__ == "__main__":
    measured.run(TensorFlow, versions)
