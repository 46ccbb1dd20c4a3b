#!/usr/bin/env python3
"""Numbers by SciPy that tests/frontends/study/statistics_test.cpp compares with.

  pip install scipy; tests/data/statistics/make.py > tests/data/statistics/scipy.json
"""
import json
import sys

import numpy as np
import scipy
from scipy import stats

SETS = 20


def rounded(values, digits):
    return [float(v) for v in np.round(values, digits)]


def samples(random, index, count):
    """Times as processes have them: different sizes, spreads and shifts, some with ties."""
    digits = 1 if index % 5 == 4 else 6
    out = []
    for k in range(count):
        size = int(random.integers(4, 9 + 2 * index))
        values = 10 * np.exp(0.05 * (1 + index % 3) * random.standard_normal(size)) * (1 + 0.01 * index * k / 4)
        if index % 4 == 3:
            values[: size // 4] *= 1.5  # a tail
        out.append(rounded(values, digits))
    return out


def pair_of(random, index):
    a, b = samples(random, index, 2)
    out = {"a": a, "b": b}
    u = stats.mannwhitneyu(a, b)
    welch = stats.ttest_ind(a, b, equal_var=False)
    margin = 0.4
    low, high = welch.confidence_interval(0.95)
    permutations = stats.permutation_test((a, b), lambda x, y, axis: np.mean(x, axis) - np.mean(y, axis), vectorized=True, n_resamples=200_000, rng=1)
    above = stats.ttest_ind(np.array(a) + margin, b, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(np.array(a) - margin, b, equal_var=False, alternative="less").pvalue
    ratio = stats.bootstrap((a, b), lambda x, y, axis: np.mean(x, axis) / np.mean(y, axis), vectorized=True, paired=False, n_resamples=200_000,
                            method="BCa", rng=1).confidence_interval
    out.update(u=u.statistic, mann_whitney=u.pvalue, welch_interval=[low, high], degrees=welch.df, margin=margin, equivalence=max(above, below),
               permutation=permutations.pvalue, ratio_interval=[ratio.low, ratio.high])
    return out


def blocks_of(random, index):
    differences = rounded(0.02 * random.standard_normal(int(random.integers(4, 13))) + 0.002 * index, 6)
    flips = stats.permutation_test((differences,), lambda x, axis: np.mean(x, axis), vectorized=True, permutation_type="samples", n_resamples=np.inf)
    one = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    return {"differences": differences, "sign_flip": flips.pvalue, "interval": [one.low, one.high]}


def several_of(random, index):
    groups = samples(random, index, 3 + index % 3)
    f = stats.f_oneway(*groups)
    x = rounded(random.permutation(np.repeat(2.0 ** np.arange(6), 1 + index % 3)), 0)
    y = rounded(10 / np.sqrt(1 + np.array(x)) + random.standard_normal(len(x)) * 0.5 * (1 + index % 4), 1 if index % 2 else 6)
    tau = stats.kendalltau(x, y)
    p = rounded(random.random(3 + index) ** 2, 6)
    # Holm's adjustment: SciPy has Benjamini's and Hochberg's alone, so each p is adjusted by its definition.
    order, largest, holm = np.argsort(p), 0, [0.0] * len(p)
    for rank, i in enumerate(order):
        largest = max(largest, min(1, p[i] * (len(p) - rank)))
        holm[i] = largest
    return {"groups": groups, "f": f.statistic, "anova": f.pvalue, "x": x, "y": y, "tau": tau.statistic, "trend": tau.pvalue, "p": p, "holm": holm}


def correlation_of(random, index):
    x = rounded(3 * random.standard_normal(5 + index % 8), 1 if index % 5 == 4 else 6)
    y = rounded(0.1 * index * np.array(x) * random.choice([-1, 1]) + random.standard_normal(len(x)), 6)
    found = stats.pearsonr(x, y)
    low, high = found.confidence_interval(0.95)
    permutations = stats.permutation_test((x,), lambda v: abs(stats.pearsonr(v, y).statistic), permutation_type="pairings", alternative="greater",
                                          n_resamples=20_000, rng=1)
    return {"x": x, "y": y, "r": found.statistic, "interval": [low, high], "slope": stats.linregress(x, y).slope, "p": permutations.pvalue}


def single_of(random, index):
    sample = samples(random, index, 1)[0]
    w = stats.shapiro(sample)
    interval = stats.bootstrap((sample,), np.mean, n_resamples=200_000, method="BCa", rng=1).confidence_interval
    q = float(np.round(random.random(), 3))
    return {"sample": sample, "w": w.statistic, "shapiro": w.pvalue, "interval": [interval.low, interval.high], "q": q, "quantile": np.quantile(sample, q),
            "geometric": stats.gmean(sample), "variance": np.var(sample, ddof=1)}


def main():
    random = np.random.default_rng(7)
    out = {"scipy": scipy.__version__}
    for name, make in (("pairs", pair_of), ("blocks", blocks_of), ("several", several_of), ("single", single_of),
                       ("correlations", correlation_of)):
        out[name] = [make(random, i) for i in range(SETS)]
    json.dump(out, sys.stdout, default=float, indent=None, separators=(",", ":"))
    print()


main()
