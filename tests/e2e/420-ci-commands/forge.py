"""forge.py - put commands to a CI server among the words of names and texts of the fixtures ops, new and old.
SPDX-License-Identifier: Apache-2.0
"""
from edit_fixture import rewrite

EVIL = "::error::forged \x85\x7f" + "a word ::error::forged and ##[error]y ##vso[task.x]z " * 8


LINES = "a\r\n::error::forged\nverdict: pass\n"


def op(x):
    return [{**x, "layer": LINES + EVIL + x["layer"], "impl": {**x["impl"], "library": EVIL, "build": EVIL}}]


for fixture in ("ops", "new"):
    rewrite(fixture, op, "ops")
rewrite("old", lambda x: [{**x, "prompt_id": EVIL + str(x["prompt_id"]), "text": EVIL, "error": EVIL, "error_kind": "cut"}])
