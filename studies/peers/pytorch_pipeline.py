"""PyTorch's pipelines (torch.distributed.pipelining): a stage a process, by GPipe or 1F1B over gloo."""
import copy
import itertools
import time

import measured
import pytorch_peer
import torch
import torchvision
from torch.distributed import pipelining

SCHEDULES = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B}
GOES_ON = (torch.nn.ReLU, torch.nn.BatchNorm2d, torch.nn.Dropout, torch.nn.Flatten)  # a stage does not begin with these: some work in place
REPEATS = 3


def stages_of(spec):
    return len(spec["devices"].split(",")) if spec.get("devices") else spec.get("np", 1)


def require(spec):
    measured.refuse_unless("command of a pipeline", spec["command"], ["bench train"])
    measured.refuse_unless("mode of a pipeline", spec["mode"], ["default"])
    measured.refuse_unless("pipeline-schedule", spec.get("pipeline-schedule"), SCHEDULES)
    measured.refuse_unless("model of a pipeline", spec["model"].rstrip("0123456789"), ["resnet", "vgg"])
    parts = spec.get("microbatches") or 0
    if parts < 1 or spec["batch-size"] % parts:
        raise measured.Gap(f"microbatches is {parts}; accepted: a divisor of the batch-size, {spec['batch-size']}")
    stages = stages_of(spec)
    if stages < 2:
        raise measured.Gap("it has one stage; accepted: devices or np, two or more")
    measured.refuse_unless("pipeline-stages", spec.get("pipeline-stages") or stages, [stages])
    measured.refuse_unless("stages", spec.get("stages", "auto"), ["auto"])
    if spec["pipeline-schedule"] == "1f1b" and parts < stages:
        raise measured.Gap(f"microbatches is {parts}; accepted by 1f1b: as many as there are stages, {stages}, or more")


def chain_of(model):
    """The modules of a model of pictures, each of which takes the output of the one before."""
    if isinstance(model, torchvision.models.ResNet):
        blocks = [block for layer in (model.layer1, model.layer2, model.layer3, model.layer4) for block in layer]
        return [model.conv1, model.bn1, model.relu, model.maxpool, *blocks, model.avgpool, torch.nn.Flatten(1), model.fc]
    return [*model.features, model.avgpool, torch.nn.Flatten(1), *model.classifier]


def pieces_of(model):
    """What a cut leaves whole."""
    pieces = []
    for module in chain_of(model):
        pieces.append([*pieces.pop(), module] if pieces and isinstance(module, GOES_ON) else [module])
    return [torch.nn.Sequential(*piece) for piece in pieces]


def seconds_of(pieces, x):
    """Of each piece forward and backward, by copies, whose running statistics are not the model's."""
    out = []
    for piece in map(copy.deepcopy, pieces):
        times = []
        for _ in range(REPEATS):
            x = x.detach().requires_grad_(bool(out))  # pictures have no gradient
            begin = time.perf_counter()
            y = piece(x)
            y.backward(torch.ones_like(y))
            times.append(time.perf_counter() - begin)
        out.append(min(times))
        x = y
    return out


def best_cuts(seconds, stages):
    """The first pieces of all stages but the first, by which the longest stage is shortest."""
    def longest(cuts):
        return max(sum(seconds[a:b]) for a, b in itertools.pairwise((0, *cuts, len(seconds))))

    return min(itertools.combinations(range(1, len(seconds)), stages - 1), key=longest)


class Stage(pytorch_peer.PyTorch):
    """One rank's stage. Every rank has the whole batch, of which the first takes the pictures and the last the labels."""

    def __init__(self, spec):
        super().__init__(spec)
        self.rank, stages, parts = torch.distributed.get_rank(), stages_of(spec), spec["microbatches"]
        self.is_last = self.rank + 1 == stages
        self.model.train()
        pieces = pieces_of(self.model)
        if len(pieces) < stages:
            raise measured.Gap(f"the model has {len(pieces)} parts for {stages} stages")
        pictures, _ = self.place(*measured.read_batch(spec))
        cuts = [best_cuts(seconds_of(pieces, pictures[: len(pictures) // parts]), stages) if self.rank == 0 else None]
        torch.distributed.broadcast_object_list(cuts)
        first, last = list(itertools.pairwise((0, *cuts[0], len(pieces))))[self.rank]
        self.model = self.call = torch.nn.Sequential(*pieces[first:last])
        self.optimizer = pytorch_peer.optimizer_of(spec, self.model)
        stage = pipelining.PipelineStage(self.model, self.rank, stages, torch.device("cpu"))
        self.schedule = SCHEDULES[spec["pipeline-schedule"]](stage, parts, self.loss_of)

    def of_rank(self, batch):
        """What the schedule takes here."""
        return (batch[:1] if self.rank == 0 else ()), ({"target": batch[1]} if self.is_last else {})

    def infer(self, batch):
        """Outputs on the last rank, which the job's are."""
        self.switch(False)
        given, named = self.of_rank(batch)
        outputs = self.schedule.eval(*given, **named)
        return outputs.detach().numpy() if self.is_last else torch.zeros(0).numpy()

    def train(self, batch):
        self.switch(True)
        self.optimizer.zero_grad(set_to_none=True)
        given, named = self.of_rank(batch)
        losses = []
        self.schedule.step(*given, **named, losses=losses, return_outputs=False)
        self.optimizer.step()
        loss = torch.stack(losses).mean().detach() if self.is_last else torch.zeros(())
        torch.distributed.broadcast(loss, torch.distributed.get_world_size() - 1)
        return loss.item()
