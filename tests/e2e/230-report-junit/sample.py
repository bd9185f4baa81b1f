"""sample.py KIND FILE - write a report for the renderers: "plain", or "nasty" with texts that try to break a format.

Shared by the cases 230 to 233. The figures are made up. SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

NASTY = [
    "]]><script>alert(1)</script>", "a|b\\|c\\\\|d`e``f", "=cmd|'/C calc'!A1", "+1", "-2+3", "@SUM(A1)", "\t=1", "＝1",
    "line one\nline two\r\nthree", "\u0000\u0001\u0008\u000b\u001b[31m\u007f\u0085\u009b31m", "\ufffe\uffff\ufeff\u202eevil\u2028x",
    "@someone and @org/team, see #12 and https://example.org/x www.example.org a@b.c", "**bold** _it_ [link](http://x) ![i](y)",
    "```\nfence\n```", "<!-- comment", "--> </details></summary>", "&lt;&#60;&amp;", "", " ", "x" * 100000, "é" * 5000 + "|", "`" * 50 + "|",
    "\"quoted\", with, commas", "'apostrophe", "# heading", "- item", "1. item", "> quote", "| a | b |\n|---|---|\n| c | d |", "$x$ ~~s~~ :+1:",
    "C:\\path\\", "\\",
]


def lane(asked, verdict, headline, *notes):
    return {"asked": asked, "verdict": verdict, "headline": headline,
            "notes": [{"verdict": v, "text": t} for v, t in notes]}


def group(kind, shape, judged, bad, new):
    return {"kind": kind, "shape": shape, "m_class": "1", "dtype": "F16", "recorded": judged, "judged": judged, "bad": bad,
            "undecided": 0, "broken": 0, "bit_equal": 0, "new_score": new, "old_score": 0.98, "limit": 4, "new_rms": 0.5,
            "old_rms": 0.5, "limit_rms": 2, "new_rel_l2": 0.0123456, "old_rel_l2": None, "compared": 0, "compared_equal": 0,
            "not_compared": 0, "departs": None, "format_changed": 0}


def speed(metric, what, slower, verdict):
    return {"metric": metric, "what": what, "total": what == "total", "unit": "ns", "old": 1e6, "new": 1.1e6, "slower": slower,
            "change": slower, "change_lo": None if slower is None else slower - 0.01,
            "change_hi": None if slower is None else slower + 0.01, "lo": None if slower is None else slower - 0.01, "hi": None if slower is None else slower + 0.01, "n": 12,
            "verdict": verdict, "faster": False}


def scored(tokens):
    return {"tokens": tokens, "comparisons": tokens, "nll": 1.5, "nll_shift": None, "standard_error": None, "mean_dlogprob": 0,
            "top_known": 0, "top_changed": 0}


def report(texts, prompts=3, rows=3):
    """A regressed report whose texts are taken from the list in turn."""
    n = [0]

    def t():
        n[0] += 1
        return texts[n[0] % len(texts)]
    prompt_ids = [t() for _ in range(prompts)]
    return {
        "schema": "tapedeck-report-3", "tool": "tapedeck differ 0.1", "verdict": "regressed", "exit": 1, "headline": "WRONG",
        "cause": None, "line": "verdict: regressed " + t(), "started": "2026-11-23T08:27:49Z", "seconds": 12.3456,
        "names": {"old": t(), "new": t(), "model": t(), "gemms": 1064, "answers": 30},
        "answers": {"equal": 47, "compared": 50, "tokens_equal": 0.981}, "speed_change": 0.021, "speed_of": "kernel time",
        "fixtures": [{"role": "baseline", "round": 0, "dir": t(), "id": "x", "exchanges": 3},
                     {"role": "candidate", "round": 0, "dir": t(), "id": "y", "exchanges": 3}],
        "bad_frames": 0,
        "lanes": {"tokens": lane(True, "regressed", t(), ("regressed", t()), ("note", t())),
                  "collapse": lane(True, "pass", t(), ("pass", t())),
                  "scores": lane(False, "not judged", "not asked for"),
                  "ops": lane(True, "regressed", t(), ("regressed", t())),
                  "speed": lane(True, "inconclusive", t(), ("inconclusive", t()))},
        "absent": [{"what": t(), "lane": "tokens", "side": "old", "planned": 10, "seen": 4, "verdict": "inconclusive", "text": t()}],
        "not_checked": ["attention, norms, sampling", t()],
        "next": [{"text": t(), "command": t()}, {"text": "decide", "command": "tapedeck gate x --build y"}],
        "accepted": [{"reason": t(), "who": t(), "since": "2026-11-23", "until": "2026-12-01", "days_left": 8, "state": "applied",
                      "lanes": ["ops"]}],
        "tokens": {"prompts": prompts, "answers": 30,
                   "by_prompt": [{"prompt_id": p, "category": t(), "compared": 2, "equal": i % 2, "verdict": "regressed" if i % 2 else "pass",
                                  "why": t() if i % 2 else ""} for i, p in enumerate(prompt_ids)],
                   "forks": [{"prompt_id": p, "category": "c", "repeat": 0, "unit": "token", "position": 5, "gap": 0.25, "old": t(), "new": t()}
                             for p in prompt_ids],
                   "lost": [{"prompt_id": prompt_ids[0], "category": "c", "repeat": 1, "kind": "cut", "error": t()}], "noise": []},
        "collapse": {"answers": 30, "excused": 0, "collapsed": [
            {"prompt_id": prompt_ids[-1], "category": "c", "repeat": 0, "kind": "bang", "why": t(), "old": t(), "new": t()}]},
        "scores": {"recorded": 0, "compared": 0, "missing": 0, "answers": scored(0), "prompts": scored(9), "worst": None, "texts": [],
                   "noise": []},
        "ops": {"judged": 1064, "bad": 919, "undecided": 0, "broken": 0, "bit_equal": 0, "recorded": 1064, "gemms": t(), "groups": [
            group(t(), t(), 128, i % 2, "Infinity" if i % 2 else 0.97) for i in range(rows)], "not_ok": []},
        "blame": {"pattern": t(), "bad": 919, "good": 145, "bad_hit": 919, "good_hit": 0, "same": [t()], "prompt_id": t(), "reading": True, "position": 3, "matrix": t(),
                  "rows": [{"kind": t(), "shape": t(), "layers": [t(), t()], "m_min": 1, "m_max": 28, "n": 640, "k": 256, "bad": 128, "judged": 128,
                            "of": "column", "old_error": 0.98, "new_error": "Infinity", "limit": 4, "why": t()}],
                  "first": {"fixture": "x", "op": 0, "kind": t(), "kernel": t(), "layer": t(), "shape": t(), "m": 28, "n": 640, "k": 256,
                            "result": "bad", "why": t(), "candidate": None}},
        "speed": {"server_judged": False, "rounds": 0, "rows": [speed("e2e", t(), 0.193 if i else None, "regressed" if i else "not judged") for i in range(rows)]},
        "policy": {"name": "default"},
    }


def broken(texts):
    return {"schema": "tapedeck-report-3", "tool": "tapedeck gate 0.1", "verdict": "broken", "exit": 4, "headline": "BROKEN",
            "cause": texts[0], "line": "verdict: broken cause=\"%s\"" % texts[0], "names": None, "answers": None, "speed_change": None,
            "fixtures": [], "lanes": {}, "absent": [], "not_checked": [], "next": [], "accepted": []}


def joined(reports):
    return {"schema": "tapedeck-reports-3", "tool": "tapedeck gate 0.1", "verdict": "broken", "exit": 4, "headline": "BROKEN",
            "line": "verdict: broken fixtures=%d" % len(reports), "reports": reports}


KINDS = {
    "plain": lambda: report(["short-1", "qwen", "gptq_gemm", "K=256 N=640"]),
    "nasty": lambda: report(NASTY, 40, 40),
    "broken": lambda: broken(["the server \"x\" is gone"]),
    "nasty-broken": lambda: joined([broken([t]) for t in NASTY]),
    "joined": lambda: joined([report(["a"]), broken(["no room"]), report(["b"])]),
    "huge": lambda: joined([report([t[:3000] for t in NASTY[i:] + NASTY[:i]], 300, 300) for i in range(20)] + [broken(["gone"])] * 400),
    "empty": lambda: {"schema": "tapedeck-report-3"},
    "odd": lambda: {"schema": "tapedeck-report-3", "verdict": 7, "lanes": [1, {"asked": True}], "names": "x", "ops": {"groups": {"a": 1}},
                    "tokens": {"by_prompt": [None, 3, {}]}, "speed": {"rows": "no"}, "blame": {"first": 5}, "next": {"text": 1},
                    "absent": [[]], "not_checked": [1], "reports": "x"},
}

if __name__ == "__main__":
    json.dump(KINDS[sys.argv[1]](), open(sys.argv[2], "w"))
