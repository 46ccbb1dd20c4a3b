#!/usr/bin/env python3
"""Steps of PyTorch on a card, for benchmarks/gpu/run: a process that stays, so that sides take turns with all of them warm.

    torch_rates.py cuda|cpu [--benchmark] [--tf32]

It says "ready" and what it runs on. A line `train resnet50:32:3x224x224 channels_last 5 20` on standard input asks for twenty steps behind five others; the
answer is "ok" and their milliseconds, or "failed" and why. Modes: nchw, channels_last of pictures, sdpa, composed of texts (scaled_dot_product_attention, or
products and a softmax), compile (torch.compile of the first of sdpa and channels_last), compile_graphs (the same with CUDA graphs). A step is that of
benchmarks/peers/compare; it ends when the device has done its work.

--benchmark sets cudnn.benchmark, --tf32 allows TF32 in products and convolutions, which PyTorch else does for convolutions by default. They hold for the
whole process: cuDNN keeps the plan that it took first for a shape, whatever is set later.
"""
import argparse
import contextlib
import gc
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "peers"), os.path.join(HERE, "..", "..", "studies", "peers")]  # a pack has their files beside this one
CLASSES = 1000
COMPILED = {"compile": {}, "compile_graphs": {"mode": "reduce-overhead"}}


def pictures(name, batch, extents, mode, device):
    """A model, and forward(call) and loss(outputs) of one batch."""
    import torch

    import picture_models

    form = torch.contiguous_format if mode == "nchw" else torch.channels_last
    model = picture_models.make(name, extents[0], CLASSES).to(device, memory_format=form)
    x, y = torch.rand(batch, *extents, device=device).contiguous(memory_format=form), torch.randint(0, CLASSES, (batch,), device=device)
    return model, lambda call: call(x), lambda outputs: torch.nn.functional.cross_entropy(outputs, y)


def texts(title, batch, length, mode, device):
    import peer_texts

    name, config = title.split("-")
    peer = peer_texts.PEERS[name]
    arguments, labels = peer.batch(batch, length)
    arguments, labels = {key: value.to(device) for key, value in arguments.items()}, labels.to(device)
    return peer_texts.make(name, config, mode).to(device), lambda call: call(**arguments).logits, lambda logits: peer.loss(logits, labels)


def step_of(work, case, mode, device):
    """What makes one step. @param case  MODEL:BATCH:CxHxW or MODEL-CONFIG:BATCH:LENGTH"""
    import torch

    torch.manual_seed(1)
    title, batch, size = case.split(":")
    extents = [int(extent) for extent in size.split("x")]
    made = pictures(title, int(batch), extents, mode, device) if len(extents) == 3 else texts(title, int(batch), extents[0], mode, device)
    model, forward, loss_of = made
    model.train(work == "train")
    call = torch.compile(model, **COMPILED[mode]) if mode in COMPILED else model
    finish = torch.cuda.synchronize if device == "cuda" else lambda: None

    def infer():
        with torch.inference_mode():
            forward(call)
        finish()

    if work == "infer":
        return infer
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)

    def train():
        optimizer.zero_grad(set_to_none=True)
        loss_of(forward(call)).backward()
        optimizer.step()
        finish()

    return train


class Steps:
    """Those of the case that was asked for last, by mode."""

    def __init__(self, device):
        self.device, self.of, self.steps = device, None, {}

    def milliseconds(self, work, case, mode, warmup, runs):
        if self.of != (work, case):
            self.of = (work, case)
            self.steps.clear()
            self.empty()
        if mode not in self.steps:
            self.steps[mode] = step_of(work, case, mode, self.device)
        step, times = self.steps[mode], []
        for run in range(-int(warmup), int(runs)):
            begin = time.perf_counter()
            step()
            if run >= 0:
                times.append(1e3 * (time.perf_counter() - begin))
        self.empty()
        return times

    def empty(self):
        """Others measure on the card meanwhile, and need its memory."""
        import torch

        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()


def set_up(options):
    """@return what it runs on"""
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("this PyTorch sees no card")
    if options.device == "cpu":
        torch.set_num_threads(1)  # a rehearsal; several processes would wait for each other
    torch.backends.cudnn.benchmark = options.benchmark
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.tf32
    card = f", {torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}" if options.device == "cuda" else ""
    return f"PyTorch {torch.__version__} on {options.device}{card}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", choices=("cuda", "cpu"))
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    try:
        with contextlib.redirect_stdout(sys.stderr):
            print("ready", set_up(options), file=answers, flush=True)
            steps = Steps(options.device)
            for line in sys.stdin:
                try:
                    print("ok", *(f"{ms:.4f}" for ms in steps.milliseconds(*line.split())), file=answers, flush=True)
                except Exception as error:  # of whatever library: this mode has no rate, the next one may have
                    steps.steps.pop(line.split()[2], None)
                    words = f"{type(error).__name__}: {error}".split()
                    print("failed", " ".join(words)[:300], file=answers, flush=True)
    except (ImportError, RuntimeError) as error:
        sys.exit(f"torch_rates: {error}")


if __name__ == "__main__":
    main()
