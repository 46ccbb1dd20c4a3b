"""Jobs of several processes of peers, each with a part of the cores; and what data parallel ones share, whose ranks have a part of the batch each."""
import ctypes
import multiprocessing
import queue
import signal
import traceback

import measured


def end_with_parent():
    """A study that is killed leaves no rank behind."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def require(spec):
    """Of replicas, which share a batch."""
    measured.refuse_unless("command of several ranks", spec["command"], ["bench train", "train"])
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
            size, rest = divmod(len(labels), ranks)
            if rest:
                raise measured.Gap(f"a batch has {len(labels)} samples; accepted: a multiple of the {ranks} ranks, which average their gradients")
            mine = slice(rank * size, (rank + 1) * size)
            return super().place(inputs[mine], labels[mine])

    return Sharded


def guarded(rank_main, rank, spec, cores, is_check, meeting, results):
    """A rank's error is the job's, with its own words."""
    try:
        rank_main(rank, spec, cores, is_check, meeting, results)
    except (measured.Gap, MemoryError, RuntimeError) as error:
        traceback.print_exc()
        kind = next(k for k in (measured.Gap, MemoryError, RuntimeError) if isinstance(error, k))  # a library's own kinds may not be sent
        results.put((rank, kind(str(error))))


def run(rank_main, spec, cores, is_check, meeting):
    """The result of a job whose ranks are processes that this one starts. @param rank_main  of (rank, spec, cores, is_check, meeting, results)"""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=guarded, args=(rank_main, rank, spec, cores, is_check, meeting, results), daemon=True) for rank in range(spec["np"])]
    for process in processes:
        process.start()
    parts = received(results, processes)
    for process in processes:
        process.join()
    return joined(parts)


def received(results, processes):
    """What each rank put there, in their order. A rank that fails, or ends without it, ends the job."""
    parts = {}
    while len(parts) < len(processes):
        try:
            rank, part = results.get(timeout=0.5)
            if isinstance(part, Exception):
                raise part
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
    is_run = "benchmarks" not in whole
    measurements = parts if is_run else [part["benchmarks"][0] for part in parts]
    measurements[0]["samples_ms"] = [max(times) for times in zip(*(m["samples_ms"] for m in measurements))]
    contexts = parts if is_run else [part["context"] for part in parts]
    contexts[0]["threads"] = sum(context["threads"] for context in contexts)
    if is_run:
        join_epochs(whole, parts)
    else:
        measurements[0]["resident_bytes"] = sum(m["resident_bytes"] for m in measurements)
    return whole


def join_epochs(whole, parts):
    """The loss of a batch is the mean over equal parts of it."""
    whole["losses"] = [sum(losses) / len(parts) for losses in zip(*(part["losses"] for part in parts))]
    for i, epoch in enumerate(whole["epochs"]):
        of_ranks = [part["epochs"][i] for part in parts]
        epoch["train_loss"] = sum(e["train_loss"] for e in of_ranks) / len(parts)
        epoch["samples_per_s"] = min(e["samples_per_s"] for e in of_ranks)  # of the whole batch, of which each has a part
    whole["last_epoch"] = whole["epochs"][-1]
