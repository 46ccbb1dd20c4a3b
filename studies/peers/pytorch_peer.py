#!/usr/bin/env python3
"""PyTorch as a peer of `gemel study`. Default: eager, NCHW. Best: torch.compile, channels_last. Several processes: DistributedDataParallel with gloo."""
import os

import measured


def versions():
    import torch
    import torchvision

    return {"torch": torch.__version__, "torchvision": torchvision.__version__}


def optimizer_of(spec, parameters):
    import torch

    name, rate, decay = spec["optimizer"], spec["lr"], spec.get("weight-decay") or 0.0
    if name in ("momentum", "nesterov"):
        return torch.optim.SGD(parameters, rate, momentum=spec.get("momentum") or 0.9, nesterov=name == "nesterov", weight_decay=decay)
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}
    measured.refuse_unless("optimizer", name, ["momentum", "nesterov", *kinds])
    return kinds[name](parameters, rate, weight_decay=decay)


class PyTorch:
    device = "cpu"

    def __init__(self, spec, wrap=lambda model: model):
        """@param wrap  makes of the model one of several processes"""
        import torch

        import picture_models

        self.torch = torch
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.is_best = spec["mode"] == "best"
        self.model = picture_models.started(spec)
        if self.is_best:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.optimizer = optimizer_of(spec, self.model.parameters())
        whole = wrap(self.model)
        self.call = torch.compile(whole) if self.is_best else whole
        self.loss_of = picture_models.loss_of

    def place(self, inputs, labels):
        x = self.torch.from_numpy(inputs)
        return x.to(memory_format=self.torch.channels_last) if self.is_best else x, self.torch.from_numpy(labels)

    def infer(self, batch):
        self.model.eval()
        with self.torch.inference_mode():
            return self.call(batch[0]).numpy()

    def train(self, batch):
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(self.call(batch[0]), batch[1])
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    measured.run(PyTorch, versions)
