"""words.py ROOT - does every heading of the text report stand in the glossary of docs/reading-a-report.md?

Headings are read from the sources: the words in capitals, the headlines, the titles of sections, the
heads of tables, and the names of the figures in the verdict line.
SPDX-License-Identifier: Apache-2.0
"""
import glob
import re
import sys

root = sys.argv[1]
glossary = open(f"{root}/docs/reading-a-report.md").read().split("## Glossary")[1]
known = set()
for cell in re.findall(r"^\| (.*?) \|", glossary, re.M):
    known.update(t for t in re.findall(r"`([^`]*)`", cell))
source = "".join(open(f).read() for f in sorted(glob.glob(f"{root}/report/report_text.c") + glob.glob(f"{root}/report/report_screen.c") + glob.glob(f"{root}/report/report_details*.c") + [f"{root}/report/blame_words.c"]))
words = {"capitals": re.findall(r'"([A-Z][A-Z ]*[A-Z]) *"', source),
         "headlines": re.findall(r'\{"[a-z]+", "([A-Z]+)", TD_EXIT', open(f"{root}/report/report.c").read()),
         "titles": [t.split(" (")[0].split(":")[0].rstrip() for t in re.findall(r'td_report_add_title\(out,\s*"([^"]*)', source)] + ["limits"],
         "heads of tables": [h for block in re.findall(r"\(const char \*const\[\]\)\{(.*?)NULL\}|\[\w*\] = \{(\"[^}]*)\}", re.sub(r"= \{\s*", "= {", source), re.S) for h in re.findall(r'"([^"]*)"', "".join(block)) if h],
         "figures": re.findall(r'" ([a-z]+)=%', "".join(open(f).read() for f in glob.glob(f"{root}/differ/lane_*.c")))}
def texts(path, start, end=";"):
    """The strings in a file between two marks."""
    return re.findall(r'"([a-z ]+)"', open(f"{root}/{path}").read().split(start)[1].split(end)[0])


words["results of ops"] = texts("differ/judged_ops.c", "td_op_result_name(")
words["verdicts"] = texts("differ/verdict.c", "td_verdict_name(", "\n}")
words["states of ops"] = [w for w in texts("format/op_status.c", "NAMES[") if w != "none"] # not judged
words["states of an acceptance"] = texts("gate/accept.c", '"state",')
words["states of fixtures"] = [w.replace("_", " ") for w in re.findall(r"^\| `([a-z_]+)` \|", open(f"{root}/docs/format.md").read().split("| `complete` |")[1].split("\n\n")[0], re.M)] + ["complete"]
absent = open(f"{root}/differ/absence.def").read().split("*/")[1]
words["what can be absent"] = re.findall(r'"([^"]+)"\)', absent)
words["behind the verdict"] = [w.split(":")[0] for w in re.findall(r'" \(([a-z ]+: [^"]*)"', open(f"{root}/differ/verdict_line.c").read())]
known.update(k.strip("()").split(":")[0] for k in known.copy() if k.startswith("("))
words["phrases"] = [p for p in ("unstable", "the baseline repeats bit for bit", "no single row is for certain", "every op that could be decided", "undecided")
                    if p in source + "".join(open(f).read() for f in glob.glob(f"{root}/differ/*.c"))]
for kind, found in words.items():
    missing = sorted({w for w in found if w not in known and w.replace("|", "abs ", 1).replace("|", "") not in known})
    print(f"{kind}: {len(set(found))} found" if found else f"{kind}: none found", f"- not in the glossary: {missing}" if missing else "- all explained")
