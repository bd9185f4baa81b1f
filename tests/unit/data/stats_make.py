#!/usr/bin/env python3
"""stats_make.py - the numbers that tests/unit/differ/test_stats.c compares with, made by scipy and numpy, not by us.

    python3 -m venv v && v/bin/pip install numpy scipy statsmodels && v/bin/python tests/unit/data/stats_make.py > tests/unit/data/stats.tsv

Lines: name, arguments, results, separated by tabs; lists by blanks.
SPDX-License-Identifier: Apache-2.0
"""
import itertools
import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(20261121)
fmt = lambda v: " ".join(repr(float(x)) for x in np.atleast_1d(v))
print("# made by stats_make.py with scipy", scipy.__version__, "numpy", np.__version__)

def signed_rank_cdf(n):
    """Exact distribution by enumeration of rank sets through numpy's polynomial product: scipy has no public one."""
    p = np.array([1.0])
    for r in range(1, n + 1):
        q = np.zeros(r + 1); q[0] = q[r] = 1.0
        p = np.convolve(p, q)
    return np.cumsum(p) / p.sum()

def hodges_lehmann(x, alpha):
    x = np.asarray(x); n = len(x)
    walsh = np.sort([(x[i] + x[j]) / 2 for i in range(n) for j in range(i, n)])
    total = len(walsh)
    if n <= 60:
        k = int(np.argmax(signed_rank_cdf(n) >= alpha / 2 - 1e-12))
    else:
        k = int(np.floor(total / 2 + stats.norm.ppf(alpha / 2) * np.sqrt(total * (2 * n + 1) / 12) - 0.5))
    k = max(k, 1)
    return np.median(walsh), walsh[k - 1], walsh[total - k]

for n in (1, 2, 5, 9, 40):
    x = rng.normal(size=n)
    for q in (0.0, 0.1, 0.5, 0.9, 0.99, 1.0):
        print("quantile", fmt(q), fmt(x), fmt(np.quantile(x, q)), sep="\t")

for n, alpha in ((6, 0.05), (8, 0.05), (12, 0.01), (25, 0.05), (40, 0.001), (60, 0.05), (61, 0.05), (150, 0.01), (300, 0.0005)):
    for shift in (0.0, 0.1):
        x = np.round(rng.normal(loc=shift, scale=0.05, size=n), 3)   # rounded: ties
        print("hl", fmt(alpha), fmt(x), fmt(hodges_lehmann(x, alpha)), sep="\t")
        # scipy's own exact test must agree about zero: inside the interval <=> p > alpha (untied data only)
        y = rng.normal(loc=shift, scale=0.05, size=n)
        if n <= 50:
            e, lo, hi = hodges_lehmann(y, alpha)
            p = stats.wilcoxon(y, method="exact").pvalue
            assert (p > alpha) == (lo <= 0 <= hi), (n, alpha, p, lo, hi)
            print("hl", fmt(alpha), fmt(y), fmt((e, lo, hi)), sep="\t")

for k, n in ((0, 1), (0, 12), (1, 12), (2, 12), (12, 12), (17, 24), (3, 200), (150, 1000)):
    for alpha in (0.05, 0.01):
        lo = stats.binomtest(k, n).proportion_ci(1 - 2 * alpha, "exact").low
        hi = stats.binomtest(k, n).proportion_ci(1 - 2 * alpha, "exact").high
        print("share", k, n, fmt(alpha), fmt((lo, hi)), sep="\t")

for k1, n1, k0, n0 in ((2, 12, 0, 12), (5, 12, 1, 12), (17, 24, 16, 24), (12, 60, 3, 60), (0, 5, 3, 9), (7, 7, 1, 9)):
    p = stats.fisher_exact([[k1, n1 - k1], [k0, n0 - k0]], alternative="greater").pvalue
    print("fisher", k1, n1, k0, n0, fmt(p), sep="\t")

for k, m, n in ((1, 1, 1), (2, 9, 10), (4, 9, 9), (3, 9, 9), (6, 6, 6), (1, 50, 1), (20, 40, 200), (0, 5, 5)):
    print("rankover", k, m, n, fmt(stats.hypergeom.pmf(k, m + n, m, k)), sep="\t")  # the k largest are all of the m

for dof in (1.0, 2.5, 5.0, 7.3, 30.0, 61.0, 200.0, 4000.0):
    for t in (0.0, 0.01, 0.7, 2.0, 6.9, 24.0, 150.0):
        print("t", fmt(dof), fmt(t), fmt(2 * stats.t.sf(t, dof)), sep="\t")
    for p in (0.5, 0.01, 1e-3, 1.5e-7, 1e-10):
        print("tlimit", fmt(dof), fmt(p), fmt(stats.t.isf(p / 2, dof)), sep="\t")

from statsmodels.stats.multitest import multipletests
for n, small in ((1, 0), (5, 2), (40, 3), (40, 12), (300, 9)):
    p = np.sort(np.concatenate([10 ** rng.uniform(-7, -3, small), rng.uniform(size=n - small)]))
    print("holm", fmt(0.01), fmt(p), int(multipletests(p, 0.01, "holm")[0].sum()), sep="\t")
