#!/usr/bin/env python3
"""TensorFlow as a peer of `gemel study`: torchvision's models in TensorFlow's operators, by a list of steps that PyTorch traces in a process of its own. Default:
tf.function, [N, H, W, C]. Best: jit_compile=True. Several processes: MultiWorkerMirroredStrategy with a ring. Texts are a BERT of our own."""
import contextlib
import json
import os
import socket

import measured
import ranks
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

    def __init__(self, spec, strategy_of=lambda tf: None):
        """@param strategy_of  makes what several processes share"""
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(len(os.sched_getaffinity(0)))
        self.tf = tf
        strategy, optimizer = strategy_of(tf), None
        with strategy.scope() if strategy else contextlib.nullcontext():
            model = model_of(spec)
            if measured.is_training(spec):  # else no moments are kept
                optimizer = optimizer_of(spec, model.weights)
                optimizer.build(model.weights)
        replicas = strategy.num_replicas_in_sync if strategy else 1  # whose gradients the optimizer adds
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits

        def infer(x):
            return model(x, False)[0]

        def train(x, labels):
            with tf.GradientTape() as tape:
                main, *others = model(x, True)
                loss = tf.reduce_mean(cross_entropy(labels, main))
                for other in others:  # Inception's auxiliary classifier
                    loss += 0.4 * tf.reduce_mean(cross_entropy(labels, other))
                share = loss / replicas
            gradients = [tf.convert_to_tensor(g) for g in tape.gradient(share, model.weights)]  # also of the rows of a table, as Gemel's
            optimizer.apply(gradients, model.weights)
            return loss

        def train_replica(x, labels):
            return strategy.run(train, (x, labels))

        is_best = spec["mode"] == "best"
        self.infer_step, self.train_step = (tf.function(f, jit_compile=is_best) for f in (infer, train_replica if strategy else train))

    def place(self, inputs, labels):
        is_picture = inputs.ndim == 4
        return self.tf.constant(inputs.transpose(0, 2, 3, 1) if is_picture else inputs), self.tf.constant(labels)

    def infer(self, batch):
        return self.infer_step(batch[0]).numpy()

    def train(self, batch):
        return float(self.train_step(*batch))


def rank_main(rank, spec, cores, is_check, workers, results):
    measured.take_cores(ranks.cores_of(rank, spec["np"], cores))
    ranks.end_with_parent()
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})

    def strategy_of(tf):
        ring = tf.distribute.experimental.CommunicationImplementation.RING
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=tf.distribute.experimental.CommunicationOptions(implementation=ring))

    kind = ranks.sharded(TensorFlow, rank, spec["np"])
    results.put((rank, measured.result_of(spec, lambda s: kind(s, strategy_of), versions, is_check)))


def free_addresses(count):
    """Of this machine, on ports that nobody has."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return ["127.0.0.1:%d" % s.getsockname()[1] for s in sockets]


def run_ranks(spec, cores, is_check):
    """The result of all ranks, each a process."""
    measured.refuse_unless("mode of several ranks", spec["mode"], ["default"])  # with jit_compile a rank of TensorFlow 2.21 fails
    versions(spec)  # an import that fails is said once
    ranks.require(spec)
    return ranks.run(rank_main, spec, cores, is_check, free_addresses(spec["np"]))


if __name__ == "__main__":
    measured.run(TensorFlow, versions, styles=("ddp",), ranks=run_ranks)
