"""A torchvision model as a list of steps in JSON, for a program that has no PyTorch in its process: written by `python trace_model.py SPEC OUT`."""
import json
import operator
import os
import subprocess
import sys

import measured


def steps_of(spec):
    """{"infer": [..], "train": [..]}, traced once for all programs that start from the same weights. A step has name, kind, inputs (names of others, or "x"),
    layer (where its weights have names) and what its kind takes."""
    out = f"{spec['start']}/steps.json"
    if not os.path.exists(out):
        done = subprocess.run([sys.executable, os.path.abspath(__file__), json.dumps(spec), out], capture_output=True, text=True)
        if done.returncode == 2:
            raise measured.Gap(done.stderr.strip())
        done.check_returncode()
    with open(out) as file:
        steps = json.load(file)
    for step in [step for both in steps.values() for step in both if spec.get("dropout") is not None]:
        if step["kind"] in ("Dropout", "StochasticDepth"):
            step["p"] = spec["dropout"]
    return steps


def layer_step(module):
    """Kind and what it takes, of one of PyTorch's layers."""
    takes = {"Conv2d": ("stride", "padding", "groups", "in_channels", "out_channels"), "BatchNorm2d": ("eps", "momentum"), "Linear": (), "Dropout": ("p",),
             "StochasticDepth": ("p",), "MaxPool2d": ("kernel_size", "stride", "padding"), "AdaptiveAvgPool2d": ("output_size",), "ReLU": (), "ReLU6": (), "SiLU": (),
             "Sigmoid": (), "Identity": ()}
    kind = type(module).__name__
    measured.refuse_unless("a layer", kind, takes)
    return {"kind": kind, **{key: getattr(module, key) for key in takes[kind]}}


def function_step(node):
    import torch

    functional = torch.nn.functional
    pooled = {functional.avg_pool2d: "AvgPool2d", functional.max_pool2d: "MaxPool2d"}
    if node.target in pooled:
        names = ("input", "kernel_size", "stride", "padding")
        given = {"padding": 0, **dict(zip(names, node.args)), **node.kwargs}
        return {"kind": pooled[node.target], **{key: given.get(key) or (given["kernel_size"] if key == "stride" else 0) for key in names[1:]}}
    if node.target is functional.adaptive_avg_pool2d:
        return {"kind": "AdaptiveAvgPool2d", "output_size": node.args[1]}
    plain = {operator.add: "add", operator.iadd: "add", torch.add: "add", operator.mul: "mul", torch.cat: "cat", torch.flatten: "flatten", "flatten": "flatten",
             functional.relu: "ReLU"}
    measured.refuse_unless("a function", node.target, plain)
    return {"kind": plain[node.target]}


def trace(module):
    import torch
    import torchvision

    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return isinstance(module, torchvision.ops.StochasticDepth) or super().is_leaf_module(module, name)

    out = []
    for node in Tracer().trace(module).nodes:
        if node.op == "placeholder":
            out.append({"name": node.name, "kind": "x", "inputs": []})
            continue
        step = {"kind": "output"} if node.op == "output" else layer_step(module.get_submodule(node.target)) if node.op == "call_module" else function_step(node)
        out.append({"name": node.name, "inputs": [n.name for n in node.all_input_nodes], **step, **({"layer": node.target} if node.op == "call_module" else {})})
    return out


def main(spec, out):
    import picture_models

    model = picture_models.started({**json.loads(spec), "dropout": None})
    with open(out + ".new", "w") as file:
        json.dump({"infer": trace(model.eval()), "train": trace(model.train())}, file)
    os.rename(out + ".new", out)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (measured.Gap, ImportError) as error:
        sys.exit(measured.leave(f"a model that PyTorch traces: {error}", 2))
