"""show.py REPORT.json - print the part of a JSON report about a change of format."""
import json, sys

o = json.load(open(sys.argv[1]))["ops"]
print(o["format_changed"], "changed;", o["compared"], "compared,", o["compared_equal"], "equal")
op = o["not_ok"][0]
print(op["kind"], op["act_rounding"], "was", op["baseline_rounding"], op["candidate"]["r0_rel_l2"] < 1e-6 < op["recorded"]["r0_rel_l2"] < 1e-1)
for g in o["groups"]:
    if g["format_changed"]:
        print(g["shape"], g["m_class"], g["old_rounding"], "->", g["new_rounding"], g["new_r0_rel_l2"] < g["old_r0_rel_l2"])
