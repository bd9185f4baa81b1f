"""power_report.py - tables of what power.py found.

SPDX-License-Identifier: Apache-2.0
"""
LANES = {"ops": ["ops"], "live": ["tokens", "collapse", "scores"], "speed": ["speed"]}
RULES = {"ops": [("exact", "exact match"), ("torch", "torch.testing")],
         "live": [("exact", "exact match"), ("logprobs", "check_logprobs_close"), ("throughput", "mean throughput")],
         "speed": [("throughput", "mean throughput")]}
NAMES = {"ops": "Ops", "live": "Answers", "speed": "Speed"}


def caught(row):
    return row["exit"] == 1


def share(hits):
    hits = list(hits)
    return f"{sum(hits)}/{len(hits)}" if hits else ""


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows] + [""]


def place(rows):
    """What the report of the smallest size that was caught says of the place."""
    for r in sorted(rows, key=lambda r: r["strength"]):
        if caught(r) and r.get("where"):
            slices = [w for w in r["where"] if w.startswith("WHY") and " %" in w]
            return (slices or r["where"])[0].removeprefix("WHY x ops ").replace("|", "/")[:110]
    return ""


def faults_table(rows, kind, concurrency):
    """A line a bug, a column a strength and concurrency."""
    rows = [r for r in rows if r["kind"] == kind and r["strength"]]
    strengths = sorted({r["strength"] for r in rows})
    if not rows:
        return []
    unit = "{:+.0%}" if kind == "speed" else "{:g}"
    head = ["bug"] + [unit.format(s) + f", c {c}" for s in strengths for c in concurrency] + (["named"] if kind == "ops" else [])
    lines = []
    for bug in dict.fromkeys(r["bug"] for r in rows):
        of = [r for r in rows if r["bug"] == bug]
        lines.append([f"`{bug}`"] + [share(caught(r) for r in of if r["strength"] == s and r["concurrency"] == c) for s in strengths for c in concurrency] +
                     ([place(of)] if kind == "ops" else []))
    return [f"### {NAMES[kind]}", ""] + table(head, lines)


def rules_table(rows):
    """A line a kind and size: how many runs each rule would have failed."""
    lines = []
    for kind, rules in RULES.items():
        of = [r for r in rows if r["kind"] == kind and "others" in r]
        for s in sorted({r["strength"] for r in of}):
            some = [r for r in of if r["strength"] == s]
            name = f"{NAMES[kind]}, " + ("honest and unchanged" if not s else f"{s:+.0%}" if kind == "speed" else f"{s:g} units")
            said = {k: share(r["others"][k] for r in some) for k, _ in rules}
            lines.append([name, share(caught(r) for r in some)] + [said.get(k, "") for k in ("exact", "logprobs", "torch", "throughput")])
    return table(["runs", "Tapedeck", "exact match", "check_logprobs_close", "torch.testing", "mean throughput"], lines)


def honest_table(rows, honest):
    lines = []
    for name in honest:
        of = [r for r in rows if r["bug"] == name and not r["strength"]]
        if of:
            lines.append([f"`{name}`" + (" (unchanged)" if name == "graded" else "")] +
                         [share(r["exit"] != 0 for r in of if r["kind"] == k) for k in LANES] + [alarm(of)])
    return table(["build", "ops", "answers", "speed", "first alarm"], lines)


def alarm(rows):
    bad = [r for r in rows if r["exit"] != 0]
    return f"{bad[0]['key']}: {bad[0]['line']}".replace("|", "/")[:110] if bad else ""


def write(rows, concurrency, honest):
    out = ["# How small a fault is found", "",
           "Written by `bench/detect/power.py report`. A bug is caught by exit 1 alone; a false alarm is any other",
           "exit than 0. Sizes are units of roundoff of float16 (2^-11), in the sum before it is rounded; c is the",
           "concurrency of the recording. Figures are runs that caught the bug, of all runs.", "", "## Bugs", ""]
    for kind in LANES:
        out += faults_table(rows, kind, concurrency)
    out += ["## Honest builds", "", "Runs with another exit than 0, of all.", ""] + honest_table(rows, honest)
    out += ["## Other rules", "", "What they would have said of the same runs: runs that they fail, of all.", ""] + rules_table(rows)
    broken = [r for r in rows if r["exit"] not in (0, 1, 3)]
    out += [f"{len(rows)} runs, {sum(r['seconds'] for r in rows) / 3600:.1f} h; {len(broken)} of them could not judge."]
    return "\n".join(out) + "\n"
