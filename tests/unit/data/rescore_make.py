#!/usr/bin/env python3
"""Two made-up scorings of three texts, and what numpy says of their difference: rescore_expected.h. SPDX-License-Identifier: Apache-2.0"""
import numpy as np

rng = np.random.default_rng(20261121)
FROM, N = [5, 9, 3], [29, 41, 20]
out = ["/* Made by rescore_make.py (numpy %s). SPDX-License-Identifier: Apache-2.0 */" % np.__version__,
       "static const int32_t RESCORE_FROM[] = {%s}, RESCORE_N[] = {%s};" % (", ".join(map(str, FROM)), ", ".join(map(str, N)))]
base = [-rng.gamma(0.5, 1.5, n).astype(np.float32) for n in N]
now = [(b + rng.normal(-0.07, 0.3, b.size)).astype(np.float32) for b in base]
for name, rows in (("BASE", base), ("NOW", now)):
    out.append("static const float RESCORE_%s[] = {" % name)
    for row in rows:
        out.append("    " + " ".join("%sf," % repr(float(x)) for x in row))
    out.append("};")


def part(pick):  # the first position of a text has no logprob
    b = np.concatenate([pick(x, f) for x, f in zip(base, FROM)]).astype(np.float64)
    c = np.concatenate([pick(x, f) for x, f in zip(now, FROM)]).astype(np.float64)
    d = b - c
    return d.size, np.mean(-b), np.mean(d), np.std(d, ddof=1) / np.sqrt(d.size), np.mean(np.abs(d))


for name, pick in (("ANSWER", lambda x, f: x[f:]), ("PROMPT", lambda x, f: x[1:f])):
    out.append("/* tokens, baseline's NLL, shift, standard error, mean |dlogprob| */")
    out.append("static const double RESCORE_%s[] = {%s};" % (name, ", ".join(repr(float(v)) for v in part(pick))))
flat = np.concatenate([c - b for b, c in zip([x[1:] for x in base], [x[1:] for x in now])])
out.append("static const double RESCORE_WORST = %r;" % float(flat[np.argmax(np.abs(flat))]))
print("\n".join(out))
