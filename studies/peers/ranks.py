"""Data parallel jobs of peers: each rank has a part of the batch and of the cores, and the job's result is that of all."""
import ctypes
import queue
import signal

import measured


def end_with_parent():
    """A study that is killed leaves no rank behind."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def require(spec):
    if spec["command"] != "bench train":
        raise measured.Gap(f"command is {spec['command']} with {spec['np']} ranks; accepted: bench train")
    if spec["batch-size"] % spec["np"]:
        raise measured.Gap(f"batch-size is {spec['batch-size']}; accepted: a multiple of the {spec['np']} ranks, which average their gradients")


def cores_of(rank, ranks, cores):
    """An even share; one that others have too where there are fewer than ranks."""
    share = len(cores) // ranks
    return cores[rank * share : (rank + 1) * share] or [cores[rank % len(cores)]]


def sharded(kind, rank, ranks):
    """The peer, which takes this rank's part of a batch."""

    class Sharded(kind):
        def place(self, inputs, labels):
            size = len(labels) // ranks
            mine = slice(rank * size, (rank + 1) * size)
            return super().place(inputs[mine], labels[mine])

    return Sharded


def received(results, processes):
    """What each rank put there, in their order. A rank that ends without it ends the job."""
    parts = {}
    while len(parts) < len(processes):
        try:
            rank, part = results.get(timeout=0.5)
            parts[rank] = part
        except queue.Empty:
            if failed := [p for p in processes if p.exitcode]:
                raise SystemExit(f"a rank ended with status {failed[0].exitcode}") from None
    return [parts[rank] for rank in range(len(processes))]


def joined(parts):
    """Outputs one behind the other, the mean of losses over equal parts; a step is as long as on the slowest rank."""
    whole = parts[0]
    if "outputs" in whole:
        whole["outputs"] = [value for part in parts for value in part["outputs"]]
        whole["losses"] = [sum(losses) / len(parts) for losses in zip(*(part["losses"] for part in parts))]
        return whole
    benches = [part["benchmarks"][0] for part in parts]
    benches[0]["samples_ms"] = [max(times) for times in zip(*(bench["samples_ms"] for bench in benches))]
    benches[0]["resident_bytes"] = sum(bench["resident_bytes"] for bench in benches)
    whole["context"]["threads"] = sum(part["context"]["threads"] for part in parts)
    return whole
