"""What the comparing programs share: options, cases, runs of `gemel bench`, and ratios."""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

GEMEL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "gemel")


def count(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not accepted; accepted: a whole number from 1")
    return int(text)


def case_list(text):
    for case in text.split(","):
        if not re.fullmatch(r"\w+:[1-9]\d*:[1-9]\d*x[1-9]\d*x[1-9]\d*|\w+-\w+:[1-9]\d*:[1-9]\d*", case):
            raise argparse.ArgumentTypeError(f"'{case}' is not accepted; accepted: MODEL:BATCH:CxHxW, such as resnet18:16:3x224x224, or MODEL-CONFIG:BATCH:LENGTH of texts, "
                                             "such as bert-base:8:128")
    return text


def add_options(parser, default_cases, runs_help, pairs=5):
    parser.add_argument("--cases", type=case_list, default=default_cases, help="MODEL:BATCH:CxHxW, or MODEL-CONFIG:BATCH:LENGTH of texts, separated by commas")
    parser.add_argument("--pairs", type=count, default=pairs)
    parser.add_argument("--runs", type=count, default=3, help=runs_help)
    parser.add_argument("--threads", type=count, default=os.cpu_count())
    parser.add_argument("--gemel", default=GEMEL, help="the program of a build")
    parser.add_argument("--json", help="write all times to this file")


def parsed(work, text):
    """A case from MODEL:BATCH:CxHxW or MODEL-CONFIG:BATCH:LENGTH."""
    title, batch, extents = text.split(":")
    model, _, config = title.partition("-")
    return {"work": work, "text": text, "model": model, "config": config, "batch": int(batch), "input": extents, "extents": [int(e) for e in extents.split("x")]}


def require_program(option, path, accepted):
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        sys.exit(f"{option}: {path} is no program; accepted: {accepted}")


def bench(program, case, frontend, runs, threads, passes="all"):
    """One run of `gemel bench` on one case: its entry of the report."""
    require_program("--gemel", program, "gemel of a build")
    with tempfile.NamedTemporaryFile() as report:
        command = [program, "bench", case["work"], "--model", case["model"], "--batch-size", str(case["batch"]), "--input", case["input"],
                   *(("--config", case["config"]) if case["config"] else ()), "--frontend", frontend, "--graph-passes", passes, "--runs", str(runs), "--warmup", "2",
                   "--threads", str(threads), "--json", report.name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        with open(report.name) as file:  # a new file under that name
            return json.load(file)["benchmarks"][0]


def ratios(over, under):
    """Median, least and greatest of the ratios of pairs."""
    values = sorted(a / b for a, b in zip(over, under))
    return {"median": statistics.median(values), "min": values[0], "max": values[-1]}


def shown(ratio):
    return f"{ratio['median']:>6.2f} ({ratio['min']:.2f}..{ratio['max']:.2f})"


def median_interval(values):
    """The median, and the ends of its 95 % interval: order statistics, whatever the distribution. @param values  six or more"""
    values, n = sorted(values), len(values)
    least, outside = 0, 1 / 2**n  # how many values may lie below the interval, and the chance that no more lie below the true median
    while 2 * (outside + math.comb(n, least + 1) / 2**n) <= 0.05:
        least += 1
        outside += math.comb(n, least) / 2**n
    return statistics.median(values), values[least], values[n - 1 - least]


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))
