"""What every peer's program does: reads a run as data, checks or measures it, and writes what `gemel bench --json` writes, or `gemel train` in summary.json.

    PEER_peer.py                                         imports the framework and prints versions
    PEER_peer.py --spec FILE --out FILE.json [--check]

The spec has the keys of `gemel bench ... --print-spec` or `gemel train --print-spec`, and: mode, "default" or "best"; start, a folder of what Gemel starts from: weights.safetensors, and a
batch, images.npy float32 [N, C, H, W] (of texts ids.npy and types.npy int64 [N, T]) and labels.npy int64 [N]. Every step of a benchmark is of this batch. --check
writes its outputs in evaluation mode and the losses of five steps, which the study compares with Gemel's own.

Exit status 0; 2, with one line that says what is accepted, for what the peer has not: the framework itself, a model, a mode.
"""
import argparse
import gc
import json
import os
import platform
import sys
import time

STEPS = 5  # of a check


# What a peer's step has, in training; another value is a gap.
PLAIN = {"accumulate": 1, "clip-norm": 0, "label-smoothing": 0, "freeze-backbone": False, "freeze-norm": False, "recompute": "none", "sync-bn": False,
         "compression": "none", "sparse-embeddings": False}


class Gap(Exception):
    """What this peer does not have. The text says what is accepted."""


def refuse_unless(key, value, accepted):
    if value not in accepted:
        raise Gap(f"{key} is {value}; accepted: {', '.join(map(str, accepted))}")


def require_plain(spec, plain):
    for key, value in plain.items():
        refuse_unless(key, spec.get(key, value), [value])


def cores_of(spec):
    """The cores that Gemel's device has: all, one where the spec names a sub-device of the CPU, or so many as it has threads."""
    cores = sorted(os.sched_getaffinity(0))
    device = str(spec.get("device") or "")
    if "." in device:
        return [cores[int(device.split(".")[1]) % len(cores)]]
    return cores[: spec.get("threads") or len(cores)]


def take_cores(cores):
    """Before the framework is imported, which counts them then."""
    os.sched_setaffinity(0, cores)
    os.environ["OMP_NUM_THREADS"] = str(len(cores))


def status_bytes(key):
    """A line of /proc/self/status such as "VmHWM:  1234 kB", in bytes."""
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(key + ":"))


class Resident:
    """Bytes that the process holds at its peak, less those before the model was made."""

    def __init__(self):
        self.before = status_bytes("VmRSS")

    def model_is_made(self):
        """The model counts as the process holds it from now on; what it took to load it does not."""
        gc.collect()
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # the peak begins anew
        except OSError:  # where this is forbidden it is that of the whole process
            pass

    def bytes(self):
        return status_bytes("VmHWM") - self.before


def read_batch(spec):
    """Inputs and labels as numpy has them."""
    import numpy as np

    import texts

    start = spec["start"]
    return texts.load(start) if spec["model"] in texts.MODELS else (np.load(f"{start}/images.npy"), np.load(f"{start}/labels.npy"))


def samples_ms(step, warmup, runs):
    """Milliseconds of each of `runs` steps behind `warmup` others, and the Unix seconds between which they lie. A step ends when the host has its result."""
    for _ in range(max(warmup, 1)):
        step()
    out, first = [], time.time()
    for _ in range(runs):
        begin = time.perf_counter()
        step()
        out.append(1e3 * (time.perf_counter() - begin))
    return out, (first, time.time())


def checked(peer, spec):
    """@param peer  has place(inputs, labels), infer(batch): outputs as numpy has them, train(batch): the loss before the update"""
    import texts

    inputs, labels = read_batch(spec)
    batch = peer.place(inputs, labels)
    judged = peer.place(texts.without_types(inputs), labels) if spec["model"] in texts.MODELS else batch
    out = {"outputs": peer.infer(judged).astype(float).ravel().tolist()}
    if is_training(spec):
        out["losses"] = [peer.train(batch) for _ in range(STEPS)]
    return out


def measured(peer, spec, resident):
    batch = peer.place(*read_batch(spec))
    step = peer.train if is_training(spec) else peer.infer
    times, span = samples_ms(lambda: step(batch), spec["warmup"], spec["runs"])
    return {"name": spec["model"], "model": spec["model"], "batch_size": spec["batch-size"], "input": spec["input"], "samples_ms": times,
            "measured_unix_s": span, "resident_bytes": resident.bytes()}


def is_training(spec):
    return spec["command"] in ("train", "bench train")


def result_of(spec, make, versions, is_check):
    """What the program writes. @param make  of a spec: the peer"""
    of_framework = versions(spec)  # imports it: its memory is not the model's
    resident = Resident()
    peer = make(spec)
    resident.model_is_made()
    context = {"library": spec["peer"], "version": {"python": platform.python_version(), **of_framework}, "threads": len(os.sched_getaffinity(0)),
               "device": peer.device}
    if is_check:
        return {"context": context, **checked(peer, spec)}
    if spec["command"] == "train":
        import training

        return {**training.Run(peer, spec).result(), **context}
    return {"context": context, "benchmarks": [measured(peer, spec, resident)]}


def run(make, versions, modes=("default", "best"), takes_training=True, styles=(), ranks=None):
    """A program's whole work. @param make  of a spec: the peer @param versions  of a spec: by name; imports all that its model needs @param styles  of parallel training that it has
    @param ranks  of (spec, cores, is_check): the result of a job in one of these styles"""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec")
    parser.add_argument("--out")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    spec = {"peer": os.path.basename(sys.argv[0]).removesuffix("_peer.py")}
    try:
        if not options.spec:
            print(json.dumps(versions(spec)))
            return
        with open(options.spec) as file:
            spec = json.load(file)
        refuse_unless("mode", spec["mode"], modes)
        if not takes_training:
            refuse_unless("command", spec["command"], ["bench infer"])
        if is_training(spec):
            require_plain(spec, PLAIN)
        if spec["command"] == "train":
            import training

            training.require(spec)
        style, cores = spec.get("parallel") or "", cores_of(spec)
        if style:
            refuse_unless("parallel", style, styles or ["none"])
        else:
            refuse_unless("np without parallel", spec.get("np", 1), [1])
        if style:
            result = ranks(spec, cores, options.check)
        else:
            take_cores(cores)
            result = result_of(spec, make, versions, options.check)
    except (Gap, ImportError) as error:
        sys.exit(leave(f"{spec['peer']}: {error}", 2))
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error) and not isinstance(error, MemoryError):
            raise
        sys.exit(leave(f"{spec['peer']}: out of memory: {(str(error).splitlines() or ['no memory is left'])[0]}; accepted: a smaller batch", 1))
    write_epochs(result.pop("epochs", []), options.out)
    with open(options.out, "w") as file:
        json.dump(result, file)


def write_epochs(epochs, out):
    """Lines of run.jsonl, as `gemel train` writes them beside its summary."""
    if not epochs:
        return
    with open(os.path.join(os.path.dirname(out), "run.jsonl"), "w") as file:
        for epoch in epochs:
            print(json.dumps({"event": "epoch", **epoch}), file=file)


def leave(line, status):
    print(" ".join(line.split()), file=sys.stderr, flush=True)
    return status
