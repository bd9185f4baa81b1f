#!/usr/bin/env python3
"""slices_make.py - the numbers that tests/unit/differ/test_slice_tests.c compares with, made by scipy, statsmodels and numpy.

    python3 -m venv v && v/bin/pip install numpy scipy statsmodels && v/bin/python tests/unit/data/slices_make.py > tests/unit/data/slices.tsv

Lines, separated by tabs: name, what is asked, ops and rows and columns of each, errors of the baseline, errors of the
candidate, outputs, results; lists by blanks. What is asked of a mean: modulus and rest; rows, tail: the same of rows, or
the size of the last tile and 0.
SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import scipy
import statsmodels
import statsmodels.api as sm
from scipy import stats

rng = np.random.default_rng(20261126)
fmt = lambda v: " ".join("%.12g" % float(x) for x in np.ravel(v))
sizes = lambda v: fmt([v.shape[0], 1 if v.ndim == 2 else v.shape[1], v.shape[-1]])
exact = lambda v: np.round(np.asarray(v) * 256) / 256  # sums of these are exact in a float
print("# made by slices_make.py with scipy", scipy.__version__, "statsmodels", statsmodels.__version__)

def p_and_error(d, inside):
    """d: [ops, columns]. Ops are blocks, and so are columns where there are eight at least."""
    ops = d[:, inside].mean(axis=1)
    if d.shape[1] < 8:
        t = stats.ttest_1samp(ops, 0)
        return t.pvalue, stats.sem(ops), len(ops) - 1
    sides = np.array([inside, ~inside], float).T
    fit = sm.OLS(d.mean(axis=0), sides[:, sides.any(axis=0)]).fit()
    error, dof = np.hypot(stats.sem(ops), fit.bse[0]), min(len(ops) - 1, fit.df_resid)
    return 2 * stats.t.sf(abs(ops.mean()) / error, dof), error, dof

def case(old, now, mod, rest):
    old, now = exact(old), exact(now)
    inside = np.arange(old.shape[1]) % mod == rest
    p, error, dof = p_and_error(now - old, inside)
    sides = old[:, inside].mean(), now[:, inside].mean()
    if sides[0] * sides[1] < 0:
        p = max(p, p_and_error(now + old, inside)[0])
    print("mean", fmt([mod, rest]), sizes(old), fmt(old), fmt(now), fmt(np.ones(old.shape)),
          fmt([sides[1] - sides[0], error, dof, p]), sep="\t")

for ops in (6, 9, 24):
    noise = rng.normal(0, 0.3, (ops, 4))
    case(noise + 0.1, noise + rng.normal(0.4, 0.2, (ops, 4)), 1, 0)     # paired: they share an error
    case(noise - 0.1, -noise + 0.15, 1, 0)                              # of other signs
    case(noise - 0.1, noise + 0.4 + rng.normal(0, 0.01, (ops, 4)), 1, 0)  # a sure difference; the sizes are not sure
    for mod, rest in ((1, 0), (2, 1), (8, 3)):
        columns = rng.normal(0, 0.2, 16) + 0.5 * (np.arange(16) % mod == rest)
        case(rng.normal(0, 0.3, (ops, 16)), rng.normal(0, 0.3, (ops, 16)) + columns, mod, rest)

for ops in (6, 20):  # slopes: of outputs of any size
    x = exact(rng.normal(0, rng.uniform(0.5, 2, (ops, 1)), (ops, 4)))
    old, now = exact(rng.normal(0, 0.3, (ops, 4))), exact(rng.normal(0, 0.3, (ops, 4)) + 0.05 * x)
    est = [np.linalg.lstsq(x.reshape(-1, 1), e.ravel(), rcond=None)[0][0] for e in (old, now)]
    print("slope", fmt([1, 0]), sizes(x), fmt(old), fmt(now), fmt(x), fmt([est[1] - est[0]]), sep="\t")

for ops, factor in ((6, 1.0), (6, 1.5), (12, 1.3), (30, 4.0)):
    old = exact(rng.normal(0, 2, (ops, 8)))
    now = exact(old * factor * np.exp(rng.normal(0, 0.1, (ops, 1))))
    ratio = np.log(np.sqrt((now ** 2).mean(axis=1) / (old ** 2).mean(axis=1)))
    t = stats.ttest_1samp(ratio, np.log(1.25), alternative="greater")
    print("coarse", fmt([1.25, 0]), sizes(old), fmt(old), fmt(now), fmt(np.ones(old.shape)),
          fmt([np.exp(ratio.mean()), stats.sem(ratio), ops - 1, t.pvalue if ratio.mean() > np.log(1.25) else 1]), sep="\t")

for ops in (6, 15):  # rows of few columns: ops alone are blocks
    old, now = exact(rng.normal(0, 0.3, (ops, 2, 4))), exact(rng.normal(0.3, 0.3, (ops, 2, 4)))
    sides = old[:, 1].mean(axis=1), now[:, 1].mean(axis=1)
    if sides[0].mean() < 0:  # one sign: else two tests are made
        old, sides = -old, (-sides[0], sides[1])
    t = stats.ttest_rel(sides[1], sides[0])
    print("rows", fmt([2, 1]), sizes(old), fmt(old), fmt(now), fmt(np.ones(old.shape)),
          fmt([sides[1].mean() - sides[0].mean(), stats.sem(sides[1] - sides[0]), ops - 1, t.pvalue]), sep="\t")

for ops in (9, 24):  # the last 4 of 12 columns, and the last one: how far the others lie apart counts, nine times what is beyond the ops
    old, now = exact(rng.normal(0, 0.3, (ops, 12)) + 0.3), exact(rng.normal(0.3, 0.3, (ops, 12)) + 0.5)
    d = now - old
    for tile in (4, 1):
        tail = d[:, -tile:].mean(axis=1)
        over_ops, over_columns = stats.sem(tail) ** 2, d[:, :-tile].mean(axis=0).var(ddof=1) / tile
        error, dof = np.sqrt(over_ops + over_columns + 8 * max(0, over_columns - over_ops)), min(ops - 1, 11 - tile)
        print("tail", fmt([tile, 0]), sizes(old), fmt(old), fmt(now), fmt(np.ones(old.shape)),
              fmt([tail.mean(), error, dof, 2 * stats.t.sf(abs(tail.mean()) / error, dof)]), sep="\t")
