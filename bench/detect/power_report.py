"""power_report.py - tables of what power.py found.

SPDX-License-Identifier: Apache-2.0
"""
import statistics

KINDS = ["ops", "speed", "live"]
RULES = {"ops": [("exact", "exact match"), ("torch", "torch.testing")],
         "live": [("exact", "exact match"), ("logprobs", "check_logprobs_close"), ("throughput", "mean throughput")],
         "speed": [("throughput", "mean throughput"), ("any", "servers, whatever else runs")]}
NAMES = {"ops": "Ops", "live": "Answers", "speed": "Speed"}


def caught(row):
    return row["exit"] == 1


def share(hits):
    hits = list(hits)
    return f"{sum(hits)}/{len(hits)}" if hits else "-"


def is_unhit(row):
    """Did no op of the recording reach the fault? Then every output is equal, bit for bit."""
    return row["kind"] == "ops" and row["exit"] == 0 and not row["others"]["exact"]


def found(rows):
    """How many of the runs caught it, and how many could not decide."""
    rows = list(rows)
    if rows and all(map(is_unhit, rows)):
        return "none hit"
    rows = [r for r in rows if not is_unhit(r)]
    undecided = sum(r["exit"] not in (0, 1) for r in rows)
    return share(map(caught, rows)) + (f" ({undecided}?)" if undecided else "")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows] + [""]


def size(kind, strength):
    return f"{strength:+.0%}" if kind == "speed" else f"{strength:g}".replace("0.5", "½")


def named(rows):
    """What the report of the smallest size that was caught says of the place."""
    for r in sorted(rows, key=lambda r: r["strength"]):
        if caught(r) and r.get("where"):
            return "; ".join(r["where"]).replace("|", "/")[:110]
    return ""


def done_words(rows, planned, kind):
    of = [k for k in planned if k.startswith(f"{kind}/")]
    done = sum(r["kind"] == kind and r["key"] in of for r in rows)
    return f"{done} of {len(of)} runs were done." if done < len(of) else f"All {done} runs were done."


def load_words(rows):
    load, cores = [r["load"] for r in rows if "load" in r], [r["others_cores"] for r in rows if "others_cores" in r]
    if not load:
        return []
    return [f"Load average before a run: median {statistics.median(load):.1f}, at most {max(load):.1f} (the bench's own runs are in it).",
            f"Other programs took {statistics.median(cores):.2f} cores in the median run, at most {max(cores):.2f}.", ""]


def faults_table(rows, kind, concurrency):
    """A line a bug, a column a size and concurrency."""
    rows = [r for r in rows if r["kind"] == kind and r["strength"]]
    strengths = sorted({r["strength"] for r in rows})
    if not rows:
        return []
    head = ["bug", "runs"] + [f"{size(kind, s)}, c {c}" for s in strengths for c in concurrency] + (["named, at the least size caught"] if kind == "ops" else [])
    lines = []
    for bug in dict.fromkeys(r["bug"] for r in rows):
        of = [r for r in rows if r["bug"] == bug]
        lines.append([f"`{bug}`", len(of)] +
                     [found(r for r in of if r["strength"] == s and r["concurrency"] == c) for s in strengths for c in concurrency] +
                     ([named(of)] if kind == "ops" else []))
    some = [[r for r in rows if r["strength"] == s and r["concurrency"] == c] for s in strengths for c in concurrency]
    if len(lines) > 1:
        lines.append(["all", len(rows)] + [found(x) for x in some] + ([""] if kind == "ops" else []))
    unhit = sum(map(is_unhit, rows))
    return table(head, lines) + ([f"*None hit*: no op of the recording has the size of the fault, and all outputs were equal, in {unhit}",
                                  "runs; they are left out of the sums, here and in the last table.", ""] if unhit else [])


def timings_table(rows):
    """Of runs of speed: in how many a row of op timings regressed, and in how many one of servers."""
    lines = []
    for s in sorted({r["strength"] for r in rows if "timings" in r}):
        of = [r["timings"] for r in rows if r["strength"] == s and "timings" in r]
        disturbed = sum(t["servers"] == "disturbed" for t in of)
        lines.append([size("speed", s) if s else "unchanged", len(of), share(t["ops"] == "regressed" for t in of),
                      share(t["servers"] == "regressed" for t in of if t["servers"] != "disturbed"), disturbed])
    return ["Runs in which a row regressed, by what it times; servers are not judged in runs that other", "programs disturbed:", ""] + table(["build", "runs", "ops", "servers", "disturbed"], lines) if lines else []


def rules_table(rows):
    """A line a kind and size: how many runs each rule would have failed."""
    lines = []
    for kind in KINDS:
        of = [r for r in rows if r["kind"] == kind and "others" in r and not (r["strength"] and is_unhit(r))]
        for s in sorted({r["strength"] for r in of}):
            groups = [[r for r in of if r["strength"] == s]]
            if not s:                       # right builds: the unchanged one, and others
                groups = [[r for r in groups[0] if (r["bug"] == "graded") == unchanged] for unchanged in (True, False)]
            for some in filter(None, groups):
                what = ("unchanged" if some[0]["bug"] == "graded" else "honest") if not s else size(kind, s) + ("" if kind == "speed" else " units")
                said = {k: share(r["others"][k] for r in some if k in r["others"]) for k, _ in RULES[kind]}
                lines.append([f"{NAMES[kind]}, {what}", len(some), share(map(caught, some))] +
                             [said.get(k, "") for k in ("exact", "logprobs", "torch", "throughput", "any")])
    return table(["build", "runs", "Tapedeck", "exact match", "check_logprobs_close", "torch.testing", "mean throughput", "servers, whatever else runs"], lines)


def honest_table(rows, honest):
    lines = []
    for name in honest:
        of = [r for r in rows if r["bug"] == name and not r["strength"]]
        if of:
            lines.append([f"`{name}`" + (" (unchanged)" if name == "graded" else "")] +
                         [share(r["exit"] != 0 for r in of if r["kind"] == k) for k in KINDS] + [alarm(of)])
    return table(["build"] + [NAMES[k].lower() for k in KINDS] + ["first alarm"], lines)


def alarm(rows):
    bad = [r for r in rows if r["exit"] != 0]
    return f"{bad[0]['key']}: {bad[0]['line']}".replace("|", "/")[:110] if bad else ""


def write(rows, planned, concurrency, honest):
    out = ["Written by `bench/detect/power.py report`. A bug is caught by exit 1 alone; a false alarm is any",
           "other exit than 0. Sizes are units of roundoff of float16 (2^-11), in the sum before it is rounded;",
           "c is the concurrency of the recording. Figures are runs that caught the bug, of all runs; `(2?)`:",
           "two more were inconclusive.", ""]
    for kind in KINDS:
        of = [r for r in rows if r["kind"] == kind]
        if of:
            out += [f"### {NAMES[kind]}", "", done_words(rows, planned, kind), ""] + load_words(of) + faults_table(rows, kind, concurrency) + timings_table(of)
    out += ["### Right builds", "", "Runs with another exit than 0, of all.", ""] + honest_table(rows, honest)
    out += ["### Other rules", "", "What they would have said of the same runs: runs that they fail, of all.", ""] + rules_table(rows)
    broken = [r for r in rows if r["exit"] not in (0, 1, 3)]
    out += [f"{len(rows)} runs; {len(broken)} of them could not judge."]
    return "\n".join(out) + "\n"
