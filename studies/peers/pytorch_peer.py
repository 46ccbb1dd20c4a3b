#!/usr/bin/env python3
"""PyTorch as a peer of `gemel study`. Default: eager, NCHW. Best: torch.compile, channels_last. Several processes: DistributedDataParallel, or a pipeline, with gloo. Texts are
Hugging Face's BERT and an LSTM."""
import os
import tempfile

import measured
import ranks
import texts


def versions(spec):
    import torch
    import torchvision

    out = {"torch": torch.__version__, "torchvision": torchvision.__version__}
    if spec.get("mode") == "best":
        import torch._inductor.compile_fx
    if spec.get("model") == "bert":
        import transformers
        import transformers.models.bert.modeling_bert

        out["transformers"] = transformers.__version__
    return out


def models_of(spec):
    """The module that has the spec's model."""
    if spec["model"] in texts.MODELS:
        import text_models as models
    else:
        import picture_models as models
    return models


def groups_of(spec, model, decay):
    """Of texts, biases and what normalises do not decay, in Gemel as here."""
    parameters = list(model.parameters())
    if spec["model"] not in texts.MODELS:
        return [{"params": parameters, "weight_decay": decay}]
    return [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": decay}, {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]


def optimizer_of(spec, model):
    import torch

    name, rate = spec["optimizer"], spec["lr"]
    parameters = groups_of(spec, model, spec.get("weight-decay") or 0.0)
    if name in ("momentum", "nesterov"):
        return torch.optim.SGD(parameters, rate, momentum=spec.get("momentum") or 0.9, nesterov=name == "nesterov")
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}
    measured.refuse_unless("optimizer", name, ["momentum", "nesterov", *kinds])
    return kinds[name](parameters, rate)


class PyTorch:
    device = "cpu"

    def __init__(self, spec, wrap=lambda model: model):
        """@param wrap  makes of the model one of several processes"""
        import torch

        self.torch = torch
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.is_best = spec["mode"] == "best"
        models = models_of(spec)
        self.model = models.started(spec)
        if self.is_best:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.optimizer = optimizer_of(spec, self.model)
        whole = wrap(self.model)
        self.call = torch.compile(whole) if self.is_best else whole
        self.loss_of = models.loss_of

    def place(self, inputs, labels):
        x = self.torch.from_numpy(inputs)
        is_picture = x.dim() == 4
        return x.to(memory_format=self.torch.channels_last) if self.is_best and is_picture else x, self.torch.from_numpy(labels)

    def switch(self, is_training):
        if self.model.training != is_training:  # walks all modules
            self.model.train(is_training)

    def infer(self, batch):
        self.switch(False)
        with self.torch.inference_mode():
            return self.call(batch[0]).numpy()

    def train(self, batch):
        self.switch(True)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(self.call(batch[0]), batch[1])
        loss.backward()
        self.optimizer.step()
        return loss.item()


def replica_of(spec):
    import torch

    kind = ranks.sharded(PyTorch, torch.distributed.get_rank(), spec["np"])
    return kind(spec, torch.nn.parallel.DistributedDataParallel)


def stage_of(spec):
    import pytorch_pipeline

    return pytorch_pipeline.Stage(spec)


def rank_main(rank, spec, cores, is_check, meeting, results):
    measured.take_cores(ranks.cores_of(rank, spec["np"], cores))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    ranks.end_with_parent()
    import torch

    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=spec["np"])
    part = measured.result_of(spec, stage_of if spec["parallel"] == "pipeline" else replica_of, versions, is_check)
    results.put((rank, part))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def run_ranks(spec, cores, is_check):
    """The result of all ranks, each a process."""
    versions(spec)  # an import that fails is said once
    if spec["parallel"] == "pipeline":
        import pytorch_pipeline

        spec = {**spec, "np": pytorch_pipeline.stages_of(spec)}
        pytorch_pipeline.require(spec)
    else:
        ranks.require(spec)
    with tempfile.TemporaryDirectory() as folder:
        return ranks.run(rank_main, spec, cores, is_check, f"{folder}/meeting")


if __name__ == "__main__":
    measured.run(PyTorch, versions, styles=("ddp", "pipeline"), ranks=run_ranks)
