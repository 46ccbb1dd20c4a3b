"""What the comparing programs share: cases, runs of `gemel bench`, and ratios."""
import json
import math
import os
import statistics
import subprocess
import sys

GEMEL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "gemel")


def parsed(work, text):
    """A case from MODEL:BATCH:CxHxW."""
    model, batch, extents = text.split(":")
    return {"work": work, "text": text, "model": model, "batch": int(batch), "input": extents, "extents": [int(e) for e in extents.split("x")]}


def bench(program, case, frontend, runs, threads, passes="all"):
    """One run of `gemel bench` on one case: its entry of the report."""
    command = [program, "bench", case["work"], "--model", case["model"], "--batch-size", str(case["batch"]), "--input", case["input"],
               "--frontend", frontend, "--graph-passes", passes, "--runs", str(runs), "--warmup", "2", "--threads", str(threads), "--json", "/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout[done.stdout.index("{"):])["benchmarks"][0]


def ratios(over, under):
    """Median, least and greatest of the ratios of pairs."""
    values = sorted(a / b for a, b in zip(over, under))
    return {"median": statistics.median(values), "min": values[0], "max": values[-1]}


def shown(ratio):
    return f"{ratio['median']:>6.2f} ({ratio['min']:.2f}..{ratio['max']:.2f})"


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))
