"""Two builds of Gemel, pair by pair: is the new one slower?

A round takes every case once, in random order. A case is one pair: some steps of the old build and of the new one, each in a process of its own, in
random order, so that whatever else the machine does meets both. A ratio is the old build's time over the new one's, by the medians of their steps: above
1 the new build is faster. Each case has the median of its ratios with a 95 % interval, and so has the geometric mean over the cases, of which each round
gives one value. The intervals are order statistics: no distribution is assumed, and a disturbed pair moves them little.

The new build counts as slower where the geometric mean's interval begins below 0.98, or where the whole interval of a case lies below 0.97.
"""
import argparse
import json
import random
import statistics
import sys

import cases

PAIRS, FEWEST_PAIRS = 20, 6  # of five values no interval holds the median with 95 %
FRONTENDS = ("graph", "eager")
LEAST_OF_MEAN, LEAST_OF_CASE = 0.98, 0.97


def frontends(text):
    chosen = tuple(text.split(","))
    if not chosen or not set(chosen) <= set(FRONTENDS):
        raise argparse.ArgumentTypeError(f"'{text}' is not accepted; accepted: {', '.join(FRONTENDS)}, or both separated by a comma")
    return chosen


def pair(case, frontend, options, rng):
    """Milliseconds of a step of each build."""
    programs = {"old": options.against, "new": options.gemel}
    order = rng.sample(sorted(programs), 2)
    return {side: cases.bench(programs[side], case, frontend, options.runs, options.threads)["median"] for side in order}


def measured(chosen, options):
    """@return for each case and front end its milliseconds: {"old": [of each round], "new": [..]}"""
    rng = random.Random(options.seed)
    runs = [(case, frontend) for case in chosen for frontend in options.frontend]
    times = {(case["text"], frontend): {"old": [], "new": []} for case, frontend in runs}
    for case, frontend in runs:  # kernels are compiled before anything counts
        for program in (options.against, options.gemel):
            cases.bench(program, case, frontend, 1, options.threads)
    for round_number in range(options.pairs):
        for case, frontend in rng.sample(runs, len(runs)):
            for side, milliseconds in pair(case, frontend, options, rng).items():
                times[case["text"], frontend][side].append(milliseconds)
        print(f"round {round_number + 1} of {options.pairs}", file=sys.stderr)
    return times


def interval(ratios):
    return dict(zip(("median", "low", "high"), cases.median_interval(ratios)))


def shown(ratio):
    return f"{ratio['median']:>6.3f} ({ratio['low']:.3f}..{ratio['high']:.3f})"


def compare(chosen, options):
    """@return the exit status: 1 where the new build is slower"""
    if options.pairs < FEWEST_PAIRS:
        sys.exit(f"compare: --pairs {options.pairs}; accepted with --against: from {FEWEST_PAIRS}, since fewer pairs have no 95 % interval")
    cases.require_program("--against", options.against, "gemel of another build")
    cases.require_program("--gemel", options.gemel, "gemel of a build")
    times = measured(chosen, options)
    ratios = {key: [old / new for old, new in zip(t["old"], t["new"])] for key, t in times.items()}
    print(f"{options.work}, {options.threads} threads, {options.pairs} pairs of {options.runs} steps, seed {options.seed}; milliseconds a step, ratio old/new with its 95 % interval")
    print(f"{'case':<30} {'front end':<9} {'old':>9} {'new':>9} {'ratio':>6}")
    slower, results = [], []
    for (text, frontend), t in times.items():
        ratio = interval(ratios[text, frontend])
        results.append({"case": text, "work": options.work, "frontend": frontend, "milliseconds": t, "ratio": ratio})
        print(f"{text:<30} {frontend:<9} {statistics.median(t['old']):>9.4g} {statistics.median(t['new']):>9.4g} {shown(ratio)}")
        if ratio["high"] < LEAST_OF_CASE:
            slower.append(f"{text} {frontend}: the whole interval lies below {LEAST_OF_CASE}")
    mean = interval([cases.geometric_mean(of_round) for of_round in zip(*ratios.values())])
    print(f"geometric mean {shown(mean)}")
    if mean["low"] < LEAST_OF_MEAN:
        slower.append(f"the geometric mean's interval begins below {LEAST_OF_MEAN}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"old": options.against, "new": options.gemel, "threads": options.threads, "seed": options.seed, "geometric_mean": mean, "results": results}, file, indent=1)
    for reason in slower:
        print(f"slower: {reason}")
    if not slower:
        print("not slower")
    return 1 if slower else 0
