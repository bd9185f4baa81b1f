#!/usr/bin/env python3
"""along_k_make.py - the numbers that tests/unit/replayer/test_along_k.c compares with, made by statsmodels and numpy.

    python3 -m venv v && v/bin/pip install numpy scipy statsmodels && v/bin/python tests/unit/data/along_k_make.py > tests/unit/data/along_k.tsv

Lines, separated by tabs: rows and columns and parts, x (part by part), y, coefficients, their standard errors (clusters are
columns), adjusted share of the squares of y that is explained; lists by blanks.
SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import statsmodels
import statsmodels.api as sm

rng = np.random.default_rng(20261126)
fmt = lambda v: " ".join("%.12g" % float(x) for x in np.ravel(v))
print("# made by along_k_make.py with numpy", np.__version__, "statsmodels", statsmodels.__version__)
for rows, cols, parts, fault in (1, 24, 3, -1), (5, 16, 4, 0.001), (3, 40, 8, 0), (8, 12, 2, 0.5):
    x = np.round(rng.normal(size=(parts, rows, cols)), 4)
    of_column = rng.normal(size=cols) * 0.2             # an error that is the same in all rows of a column
    y = np.round(fault * x[parts // 2] + of_column * x.sum(axis=0) + 0.3 * rng.normal(size=(rows, cols)), 4)
    clusters = np.tile(np.arange(cols), rows)
    flat = x.reshape(parts, -1).T
    fit = sm.OLS(y.ravel(), flat).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert np.allclose(fit.params, np.linalg.lstsq(flat, y.ravel(), rcond=None)[0])
    share = fit.rsquared_adj                              # without a constant: 1 - (1 - R2) n / (n - p)
    print(fmt([rows, cols, parts]), fmt(x), fmt(y), fmt(fit.params), fmt(fit.bse), fmt([share]), sep="\t")
