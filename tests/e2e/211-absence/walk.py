"""walk.py - make everything happen that docs/verdicts.md says can be absent.

A row of its table "What can be absent" names what comes out. case_<row>() makes the fixture, and
returns what came out: "record exit 4", or the verdict of the report's entry `absent` of that name.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.append(sys.path[0] + "/../..")
from edit_fixture import answers, edit, rewrite

ROOT, BIN, O = os.environ["ROOT"], os.environ["BIN"], os.environ["O"]
SUITE = [{"id": "one", "prompt": "a", "max_tokens": 8}, {"id": "two", "prompt": "b", "max_tokens": 8},
         {"id": "three", "messages": [{"role": "user", "content": "c"}], "max_tokens": 8}]


def run(program, *args, stop_after=None):
    """Run a program to its end; stop_after(): send SIGINT as soon as it says so. Returns the exit code."""
    with open("out", "w") as out, open("err", "w") as err:
        p = subprocess.Popen([f"{BIN}/{program}", *args], stdout=out, stderr=err)
        while stop_after and p.poll() is None and not stop_after():
            time.sleep(0.02)
        if stop_after and p.poll() is None:
            p.send_signal(signal.SIGINT)
        return p.wait()


class Server:
    """A fake server, for as long as the with statement lasts."""

    def __init__(self, *options):
        self.options = options

    def __enter__(self):
        self.p = subprocess.Popen([sys.executable, f"{ROOT}/tests/fakes/fake_server.py", *self.options],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return self.p.stdout.readline().split("//")[1].strip()

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()


def suite(name, prompts):
    with open(name, "w") as f:
        f.writelines(json.dumps(p) + "\n" for p in prompts)
    return name


def record(name, *options, server=(), repeat=2, prompts="suite.jsonl"):
    with Server(*server) as url:
        return run("record", "--server", url, "-o", name, "--suite", prompts, "--repeat", str(repeat),
                   "--gemms", "off", *options)


def replay(fixture, name, *options, server=()):
    with Server(*server) as url:
        return run("replay", fixture, "-o", name, "--server", url, *options)


def replay_ops(fixture, name, *options):
    assert run("replay", fixture, "-o", name, "--provider", "cpu", *options) == 0, open("err").read()


def copy(name, new):
    shutil.copytree(name, new)
    return new


def without(*members):
    """A change for rewrite(): timed answers without these members."""
    return lambda r: [{k: v for k, v in r.items() if r["phase"] != "timed" or k not in members}]


def swapped(r):
    """A change for rewrite(): the first repeat of one prompt is gone, that of another is there twice."""
    if r["phase"] != "timed" or r["repeat"]:
        return [r]
    return {"one": [], "two": [r, r]}.get(r["prompt_id"], [r])


def differ(base, new, *options):
    code = run("differ", base, new, "--json", "report.json", *options)
    report = json.load(open("report.json"))
    assert code == report["exit"]
    return report


def absent(row, base, new, *options):
    """What the report says of this row, which must fit the verdict of its lane and of all."""
    if os.path.exists("report.json"):
        os.remove("report.json")
    report = differ(base, new, *options)
    found = [a for a in report["absent"] if a["what"] == row]
    if not found:
        return f"not found, but {report['absent']} {report['lanes']}"
    for a in found:
        lane = report["lanes"][a["lane"]]
        assert a["seen"] < a["planned"], a
        assert any(n["text"] == a["text"] for n in lane["notes"]), lane
        assert lane["asked"] and lane["verdict"] != ("pass" if a["verdict"] != "note" else "inconclusive"), lane
    if found[0]["verdict"] != "note":
        assert report["verdict"] == found[0]["verdict"], report["verdict"]
    return found[0]["verdict"]


def good():
    """A recording without fault, and its replay."""
    if not os.path.exists("good"):
        assert record("good") == 0, open("err").read()
        assert replay("good", "same") == 0
        r = differ("good", "same")
        assert r["verdict"] == "pass" and r["absent"] == [], r["absent"]
    return "good", "same"


def tapped():
    """A recording with ops, as a tap leaves it, and its replay."""
    if not os.path.exists("ops"):
        subprocess.run([f"{O}/tests/helpers/make_ops", "ops", "steps=4"], check=True)
        n = json.load(open("ops/manifest.json"))["files"]["ops.jsonl.zst"]["records"]

        def tap(m):
            m["tap"] = {"present": True, "mode": {"take": "all"}, "processes": [{"pid": 1}]}
            m["ledger"].update({"ops.seen": {"n": n, "bytes": 0}, "ops.kept": {"n": n, "bytes": 0}})
            m["plan"] = {"timed": 0, "tapped": 0, "scores": 0}
        edit("ops", tap)
        replay_ops("ops", "ops-same")
        r = differ("ops", "ops-same")
        assert r["verdict"] == "pass" and r["absent"] == [], r["absent"]
    return "ops", "ops-same"


def ledger(name, n):
    return lambda m: m["ledger"].update({name: {"n": n, "bytes": 0}})


def flip(path):
    b = bytearray(open(path, "rb").read())
    b[-20] ^= 255
    open(path, "wb").write(b)


# ---- recording -----------------------------------------------------------------------------------

def case_suite():
    with open("empty.jsonl", "w") as f:
        f.write("# nothing\n\n")
    return f"record exit {record('empty', prompts='empty.jsonl')}"


def case_failed_requests():
    code = record("refused", server=("--fault", "refuse", "--refuse", "messages"))
    assert json.load(open("refused/manifest.json"))["state"] == "incomplete"
    assert record("taken", "--allow-failures", server=("--fault", "refuse", "--refuse", "messages")) == 0
    assert json.load(open("taken/manifest.json"))["state"] == "failures_allowed"
    return f"record exit {code}"


def case_server():
    code = record("died", server=("--die-after", "4"))
    assert json.load(open("died/manifest.json"))["state"] == "incomplete"
    return f"record exit {code}"


def timed(fixture):
    """Are there answers in this fixture, which is still being written?"""
    p = subprocess.run(f"zstd -dcq {fixture}/exchanges.jsonl.zst 2>/dev/null | grep -c timed", shell=True,
                       capture_output=True, text=True)
    return int(p.stdout or 0) > 0


def case_signal():
    with Server("--pause", "0.02") as url:
        code = run("record", "--server", url, "-o", "stopped", "--suite", "suite.jsonl", "--repeat", "1000",
                   "--gemms", "off", stop_after=lambda: timed("stopped"))
    assert json.load(open("stopped/manifest.json"))["state"] == "interrupted"
    return f"record exit {code}"


def case_replay_signal():
    base, _ = good()
    with Server("--pause", "0.02") as url:
        code = run("replay", base, "--server", url, "-o", "part", "--repeat", "1000",
                   stop_after=lambda: timed("part"))
    assert json.load(open("part/manifest.json"))["state"] == "interrupted"
    return f"replay exit {code}"


def case_no_ops():
    port = subprocess.run([sys.executable, "-c", "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"],
                          capture_output=True, text=True).stdout.strip()
    model = f"{ROOT}/demo/checkpoints/gptq4"
    code = run("record", "--server", f"127.0.0.1:{port}", "-o", "no-ops", "--suite", suite("short.jsonl", SUITE[:1]),
               "--repeat", "1", "--gemms", "all", "--layers", "no_such_layer", "--run", "--", f"{BIN}/demo-server", "--model", model,
               "--port", port)
    assert json.load(open("no-ops/manifest.json"))["state"] == "incomplete", open("err").read()
    return f"record exit {code}"


def case_only():
    base, _ = tapped()
    code = run("replay", base, "-o", "nothing", "--provider", "cpu", "--only", "no_such_layer")
    assert "model.layers." in open("err").read(), open("err").read()
    return f"replay exit {code}"


def case_baseline():
    with Server() as url:
        return f"gate exit {run('gate', 'nowhere', '--server', url)}"


# ---- answers -------------------------------------------------------------------------------------

def case_plan():
    base, new = good()

    def older(m):
        for member in ("plan", "seen", "suite"):
            del m[member]
        m["state"] = "interrupted"
    assert lost_ledger(base, new) == "inconclusive"
    return absent("plan", edit(copy(base, "older"), older), new)


def damage_ledger(fixture, cut=False):
    """Change a byte of the ledger's last frame, or cut all but its head off."""
    path = f"{fixture}/ledger.jsonl.zst"
    data = bytearray(open(path, "rb").read())
    last = data.rfind(b"\x5d\x2a\x4d\x18")
    assert last > 0
    data[last + 70] ^= 0x55
    with open(path, "wb") as f:
        f.write(data[:last + 60] if cut else data)


def lost_ledger(base, new):
    """The manifest is lost, and it is made anew of a ledger that lost a frame, and perhaps a plan with it. A torn frame was
    never committed, and says nothing. Where the manifest is whole, the ledger is not needed."""
    torn, damaged, kept = copy(base, "ledger-torn"), copy(base, "ledger-damaged"), copy(base, "ledger-of-whole")
    for f in torn, damaged:
        os.remove(f"{f}/manifest.json")
    damage_ledger(torn, cut=True)
    damage_ledger(damaged)
    damage_ledger(kept)
    for f in torn, damaged, kept:
        assert run("fixture", "repair", f) == 0, open("err").read()
    # which frame was the last one depends on the machine's speed: the plan is in it, or before it
    planned = "plan" in json.load(open(f"{torn}/manifest.json"))
    r = differ(torn, new)
    assert r["verdict"] == ("pass" if planned else "inconclusive"), (planned, r["absent"])
    assert differ(kept, new)["verdict"] == "pass"
    m = json.load(open(f"{kept}/manifest.json"))
    assert m["state"] == "incomplete" and "records of ledger.jsonl.zst" in m["seen"]["causes"][0], m["seen"]
    m = json.load(open(f"{damaged}/manifest.json"))
    assert m["seen"]["causes"] == ["repair gave up 1 frame of ledger.jsonl.zst, of which the manifest was made"], m["seen"]
    assert run("fixture", "redact", damaged, "-o", "ledger-redacted") == 0
    assert absent("plan", "ledger-redacted", new) == "inconclusive"
    return absent("plan", damaged, new)


def case_prompts():
    return case_of_refused("prompts")


def case_of_refused(row):
    if not os.path.exists("refused"):
        case_failed_requests()
    if not os.path.exists("refused-same"):
        replay("refused", "refused-same")
    return absent(row, "refused", "refused-same")


def case_answers():
    """One repeat of one prompt is missing; and an older fixture says so by its suite."""
    assert record("one-less", server=("--die-after", "6")) == 4
    replay("one-less", "one-less-same")
    base, new = good()
    rewrite(copy(base, "one-twice"), swapped) # sums balance, prompts do not
    assert absent("answers", "one-twice", new) == "inconclusive"
    edit(copy("one-less", "one-less-old"), lambda m: (m.pop("plan"), m.pop("seen"), m.update(state="complete")))
    assert absent("answers", "one-less-old", "one-less-same") == "inconclusive"
    assert absent("answers", "one-less", "one-less-same", "--lanes", "collapse") == "inconclusive"
    return absent("answers", "one-less", "one-less-same")


def case_failures_allowed():
    if not os.path.exists("taken"):
        case_failed_requests()
    replay("taken", "taken-same", server=("--fault", "refuse", "--refuse", "messages"))
    assert differ("taken", "taken-same")["verdict"] == "pass"
    return absent("failures_allowed", "taken", "taken-same")


def case_not_replayed():
    """A candidate that planned two of three prompts."""
    base, _ = good()
    record("two", prompts=suite("two.jsonl", SUITE[:2]))
    report = differ(edit(copy(base, "three"), lambda m: m["suite"].pop("hash")), "two")
    assert "1 prompt of the baseline was not replayed" in [n["text"] for n in report["lanes"]["tokens"]["notes"]]
    return report["lanes"]["tokens"]["verdict"]


def case_requests():
    """A replay that was stopped; what it holds is equal."""
    if not os.path.exists("part"):
        case_replay_signal()
    base, new = good()
    rewrite(copy(new, "same-twice"), swapped)
    assert absent("requests", base, "same-twice") == "inconclusive"
    assert absent("requests", base, "same-twice", "--lanes", "collapse") == "inconclusive"
    edit(copy("part", "part-planless"), lambda m: (m.pop("plan"), m.pop("seen"), m["replay"].pop("requests", 0),
                                                   m.update(state="complete")))
    rewrite("part-planless", lambda r: [r] if r["prompt_id"] != "one" or r["repeat"] == 0 else [])
    rewrite("part-planless", lambda r: [r] if r.get("repeat", 0) < 2 else [])
    assert absent("requests", base, "part-planless") == "inconclusive"
    for name, ids in {"renamed-all": ("one", "two", "three"), "renamed-one": ("one",), "renamed-two": ("one", "two")}.items():
        rewrite(copy(new, name), answers(lambda r: r["prompt_id"] in ids and r.update(prompt_id=r["prompt_id"] + "-other")))
        report = differ(base, name)
        found = [(a["seen"], a["planned"]) for a in report["absent"] if a["what"] == "requests"]
        assert report["verdict"] != "pass", name
        assert len(ids) == 3 or found and all(planned - seen == 2 * len(ids) for seen, planned in found), (name, report["absent"])
    return absent("requests", base, "part")


def unlisted(fixture, name):
    """A fixture whose manifest has no checksum of a file, of which a frame is corrupt."""
    flip(f"{fixture}/{name}")
    return edit(fixture, lambda m: m["files"].pop(name))


def case_exchange_frames():
    base, new = good()
    unlisted(copy(base, "torn"), "exchanges.jsonl.zst")
    return absent("exchange_frames", "torn", new)


def case_content():
    """Without text and without token ids all answers are equal."""
    assert record("mute", "--no-text", server=("--shape", "openai"), prompts=suite("chat.jsonl", SUITE[2:])) == 0
    return absent("content", "mute", copy("mute", "mute-too"))


def case_readable():
    """A server that says "!!!!" and sends no token ids, where words are redacted: no rule sees anything."""
    assert record("wordless", "--no-text") == 0
    replay("wordless", "wordless-bang", server=("--fault", "bang", "--ignore", "return_token_ids,return_tokens_as_token_ids"))
    return absent("readable", "wordless", "wordless-bang", "--lanes", "collapse")


def case_token_ids():
    base, new = good()
    rewrite(copy(new, "idless"), without("token_ids", "ids_complete"))
    assert absent("token_ids", base, "idless") == "inconclusive"
    assert differ("idless", copy("idless", "idless-too"))["verdict"] == "pass" # the baseline has none either
    for name, change in {"id-incomplete": lambda r: r.update(ids_complete=False),
                         "id-missing": lambda r: r.update(ids_complete=False, ids_missing=1, token_ids=r["token_ids"][:-1] + [-1]),
                         "id-unmarked": lambda r: r.update(token_ids=[-1] + r["token_ids"][1:])}.items():
        assert absent("token_ids", base, rewrite(copy(new, name), answers(change))) == "inconclusive", name
    replay(base, "ids-refused", server=("--fault", "refuse", "--refuse", "return_token_ids,return_tokens_as_token_ids"))
    return absent("token_ids", base, "ids-refused")


def case_logprobs():
    base, new = good()
    rewrite(copy(new, "flat"), without("logprobs", "top", "top_k"))
    assert absent("logprobs", base, "flat", "--lanes", "collapse") == "inconclusive"

    def vary(r):
        if r["phase"] == "timed":
            r["logprobs"] = [-0.05 * i for i in range(len(r["logprobs"]))]
        return [r]

    def zero(r):
        if r["phase"] == "timed":
            r["logprobs"] = [0.0] * len(r["logprobs"])
        return [r]
    rewrite(copy(base, "varied"), vary)
    rewrite(copy(new, "zeros"), zero)
    assert absent("logprobs", "varied", "zeros", "--lanes", "collapse") == "inconclusive"
    for name, at in {"logprob-missing": [3], "logprobs-of-half": [0, 2, 4, 6]}.items():
        def lose(r):
            r["logprobs"] = ["-Infinity" if i in at else v for i, v in enumerate(r["logprobs"])]
            r["logprobs_missing"] = len(at)
        rewrite(copy(new, name), answers(lose))
        assert absent("logprobs", base, name) == "inconclusive", name
    return absent("logprobs", base, "flat")


def case_alternatives():
    base, new = good()
    return absent("alternatives", base, rewrite(copy(new, "topless"), without("top", "top_k")))


def case_asked():
    """Answers to another request, equal by luck. What may differ: the model's name on another server, what a server was asked without."""
    base, new = good()

    def changed(name, **members):
        return rewrite(copy(new, name), answers(lambda r: r["request"].update(members)))

    def lacks(name, *members):
        return rewrite(copy(new, name), answers(lambda r: [r["request"].pop(m, None) for m in members]))
    for name, other in {"asked-prompt": {"prompt": "z", "messages": [{"role": "user", "content": "z"}]}, "asked-max": {"max_tokens": 9},
                        "asked-warm": {"temperature": 1}, "asked-model": {"model": "z"}, "asked-more": {"stop": ["z"]}}.items():
        assert absent("asked", base, changed(name, **other)) == "inconclusive", name
    assert absent("asked", base, lacks("asked-less", "temperature")) == "inconclusive"
    for member in "path", "method":
        assert absent("asked", base, rewrite(copy(new, f"asked-{member}"), answers(lambda r: r.update({member: "GET"})))) == "inconclusive", member
    assert absent("asked", base, rewrite(copy(new, "asked-nothing"), answers(lambda r: r.pop("request")))) == "inconclusive"
    assert absent("asked", base, changed("asked-salt", seed=5, cache_salt="td-0000000000000000")).startswith("not found")
    assert absent("asked", base, lacks("asked-bare", "stream_options", "return_token_ids", "return_tokens_as_token_ids", "cache_salt")).startswith("not found")
    renamed = edit(changed("asked-named", model="other"), lambda m: (m["server"].update(model="other"), m["replay"].update(
        served_as="other", recorded_model="fake")))
    assert absent("asked", base, renamed).startswith("not found")
    stars = rewrite(copy(new, "asked-stars"), answers(lambda r: "prompt" in r["request"] and r["request"].update(prompt="*")))
    assert absent("asked", base, stars) == "inconclusive" # no rule overwrites anything: a star is a star
    assert absent("asked", base, changed("asked-hidden", model="****")).startswith("not found") # as a header's value
    assert record("asked-masked", "--no-text") == 0 and replay("asked-masked", "asked-masked-too") == 0
    assert absent("asked", "asked-masked", "asked-masked-too").startswith("not found")
    masked = rewrite(copy("asked-masked-too", "asked-masked-max"), answers(lambda r: r["request"].update(max_tokens=9)))
    assert absent("asked", "asked-masked", masked) == "inconclusive"
    assert absent("requests", base, rewrite(copy(new, "roles"), answers(lambda r: r.update(role="scores")))) == "inconclusive"
    return absent("asked", base, changed("asked-two", n=2))


def case_prompt_read():
    """A second token at the beginning of each prompt, as of another chat template: ids, and their count alone."""
    base, new = good()

    def longer(r):
        return [{**r, "prompt_token_ids": [1] + r["prompt_token_ids"]} if r["phase"] == "timed" and r.get("role") != "scores" else r]

    def counted(r):
        return [{**without("prompt_token_ids")(r)[0], "usage": {**r["usage"], "prompt_tokens": 4}}
                if r["phase"] == "timed" and r.get("role") != "scores" else r]
    assert absent("prompt_read", base, rewrite(copy(new, "counted"), counted)) == "inconclusive"
    return absent("prompt_read", base, rewrite(copy(new, "longer"), longer))


def case_ends():
    base, new = good()
    return absent("ends", base, rewrite(copy(new, "endless"), without("finish_reason")))


def case_end_marks():
    assert record("unmarked", server=("--unmarked", "1")) == 0, open("err").read()
    assert replay("unmarked", "unmarked-too", server=("--unmarked", "1")) == 0
    return absent("end_marks", "unmarked", "unmarked-too")


def case_scores():
    base, new = good()
    assert json.load(open(f"{base}/manifest.json"))["plan"]["scores"] > 0
    rewrite(copy(base, "scored-twice"), lambda r: {"one": [], "two": [r, r]}.get(r["prompt_id"], [r])
            if r.get("role") == "scores" and r["repeat"] else [r])
    assert absent("scores", "scored-twice", new) == "inconclusive"
    rewrite(copy(base, "none-scored"), lambda r: [] if r.get("role") == "scores" else [r])
    edit("none-scored", lambda m: m.update(state="failures_allowed")) # --allow-failures excuses some, not all
    assert absent("scores", "none-scored", new) == "inconclusive"
    replay(base, "unscored", server=("--fault", "refuse", "--refuse", "prompt_logprobs"))
    assert absent("scores", base, "unscored") == "inconclusive"
    record("nan", server=("--fault", "nan"))
    return absent("scores", "nan", copy("nan", "nan-too"), "--lanes", "scores")


# ---- ops -----------------------------------------------------------------------------------------

def ops_with(name, change):
    base, new = tapped()
    return edit(copy(base, name), change), new


def case_tapped():
    return absent("tapped", *ops_with("untapped", lambda m: m["plan"].update(tapped=3)))


def case_ops_kept():
    return absent("ops_kept", *ops_with("full", ledger("ops.dropped.ring", 5)))


def case_ops_sampled():
    def sample(m):
        m["tap"]["mode"]["take"] = "sample"
        ledger("ops.dropped.ring", 5)(m)
    fixtures = ops_with("sampled", sample)
    assert differ(*fixtures)["verdict"] == "pass"
    return absent("ops_sampled", *fixtures)


def case_op_lines():
    return absent("op_lines", *ops_with("fewer", ledger("ops.kept", 100)))


def case_ops_planned():
    """A recording, or an extract, that was killed: how many ops it was to hold is not known."""
    fixtures = ops_with("killed", lambda m: m.update(state="interrupted"))
    assert absent("ops_planned", *fixtures) == "inconclusive"
    n = json.load(open("killed/manifest.json"))["files"]["ops.jsonl.zst"]["records"]
    assert differ(*ops_with("killed-late", lambda m: (m.update(state="interrupted"), m["plan"].update(ops=n))))["verdict"] == "pass"
    return absent("ops_planned", *ops_with("killed-early", lambda m: (m.update(state="interrupted"), m["plan"].update(ops=n + 1))))


def case_taps():
    return absent("taps", *ops_with("ended", ledger("links.lost", 1)))


def write_steps(fixture, n):
    data = "".join(json.dumps({"step": i, "pid": 1, "t_ns": i, "how": "unknown", "spans": []}) + "\n" for i in range(n))
    subprocess.run([f"{O}/tests/helpers/write_stream", fixture, "steps.jsonl.zst"], input=data.encode(), check=True)


def case_steps():
    """Half of the steps are lost in a damaged file, which is repaired: every op is still there."""
    base, new = ops_with("half", lambda m: (ledger("steps.kept", 4)(m), m["files"].pop("steps.jsonl.zst")))
    write_steps(base, 4)
    assert run("fixture", "repair", base) == 0 # now the manifest lists them
    assert json.load(open(f"{base}/manifest.json"))["state"] == "complete"
    assert differ(base, new)["absent"] == []
    write_steps(base, 2)
    assert run("fixture", "repair", base) == 0, open("err").read()
    m = json.load(open(f"{base}/manifest.json"))
    assert m["state"] == "incomplete", m["state"]
    assert m["seen"]["causes"] == ["repair gave up 2 of 4 records of steps.jsonl.zst"], m["seen"]
    assert run("fixture", "repair", base) == 0
    assert json.load(open(f"{base}/manifest.json"))["seen"] == m["seen"]
    return absent("steps", base, new)


def case_files():
    """A file that is gone, is cut, or holds other bytes: of every side, and also in a replay."""
    base, new = tapped()

    def refused(a, b, name):
        report = differ(a, b, "--lanes", "ops")
        assert report["verdict"] == "broken" and f"is damaged: {name}: " in report["line"], report["line"]
        assert "fetch the fixture again" in report["line"], report["line"]
        return report["exit"]
    for n, name in enumerate(("ledger.jsonl.zst", "steps.jsonl.zst", "wire.zst", "blobs.pack", "ops.jsonl.zst")):
        lost = copy(base, f"lost-{n}")
        os.remove(f"{lost}/{name}")
        assert refused(lost, new, name) == 4
        assert run("replay", lost, "-o", f"lost-again-{n}", "--provider", "cpu") == 4
        assert f"is damaged: {name}: missing" in open("err").read(), open("err").read()
    cut = copy(new, "cut")
    with open(cut + "/ops.jsonl.zst", "r+b") as f:
        f.truncate(os.path.getsize(f.name) - 1)
    assert refused(base, "cut", "ops.jsonl.zst") == 4
    flip(copy(new, "flipped") + "/ops.jsonl.zst")
    return f"`differ` exit {refused(base, 'flipped', 'ops.jsonl.zst')}".replace("`", "")


def case_blobs():
    """A stored byte of the pack is another one, and ops need the blob that it belongs to."""
    base, _ = tapped()
    bad = copy(base, "bad-blob")
    with open(bad + "/blobs.pack", "r+b") as f:
        f.seek(70)
        byte = f.read(1)[0] ^ 255
        f.seek(70)
        f.write(bytes([byte]))
    replay_ops(bad, "bad-blob-same")
    assert absent("blobs", bad, "bad-blob-same") == "broken"
    replay_ops(base, "sound-sample", "--max-ops", "4") # none of its ops is the damaged one
    assert absent("blobs", bad, "sound-sample") == "broken"
    return absent("blobs", bad, "bad-blob-same")


def case_op_frames():
    base, new = tapped()
    unlisted(copy(new, "torn-ops"), "ops.jsonl.zst")
    return absent("op_frames", base, "torn-ops", "--lanes", "ops")


def case_ops_replayed():
    base, new = tapped()
    for i in "123":
        replay_ops(base, f"shard{i}", "--shard", f"{i}/3")
    assert absent("ops_replayed", base, "shard1") == "inconclusive"
    assert run("fixture", "merge", "-o", "merged", "shard1", "shard2", "shard3") == 0
    assert differ(base, "merged")["verdict"] == "pass"
    assert run("fixture", "merge", "-o", "two-of-three", "shard1", "shard3") == 0
    assert absent("ops_replayed", base, "two-of-three") == "inconclusive"
    for option, value in (("--only", "model.layers.1.*"), ("--max-ops", "8")): # left out by choice
        replay_ops(base, "chosen" + option, option, value)
        assert differ(base, "chosen" + option)["verdict"] == "pass"
    first = []

    def cut(r): # the first op twice, the second not at all
        first.append(r)
        return [] if len(first) == 2 else [r, r] if len(first) == 1 else [r]
    rewrite(copy(new, "op-twice"), cut, "ops")
    assert run("differ", base, "op-twice") == 4 and "is there twice" in open("err").read()

    def forget(m): # what was cut says nothing of it
        for member in ("plan", "seen", "ledger"):
            m.pop(member, None)
    first.clear()
    rewrite(copy(new, "forgot"), lambda r: [r] if first.append(r) or len(first) <= 3 else [], "ops")
    assert absent("ops_replayed", base, edit("forgot", forget), "--lanes", "ops") == "inconclusive"
    for name in ("late", "late-too"): # two replays that lack the same ops of their plans
        first.clear()
        rewrite(copy(new, name), lambda r: [r] if first.append(r) or len(first) <= 12 else [], "ops")
        edit(name, lambda m: (m.update(id=f"{len(name):032x}", state="incomplete"), ledger("ops.dropped.time", 4)(m)))
    assert absent("ops_replayed", "late", "late-too") == "inconclusive"
    return absent("ops_replayed", base, "shard2")


# ---- timings -------------------------------------------------------------------------------------

def case_baseline_runs():
    """A baseline build that runs out of memory in some ops: what was recorded stands in its place."""
    base, _ = tapped()
    lib = f"{O}/tests/helpers/lib_misbehave.so"
    assert run("replay", base, "-o", "poor", "--build", lib, "--baseline-build", lib, "--baseline-env", "TD_MISBEHAVE=enomem+m",
               "--op-timing", "off") == 0, open("err").read()
    return absent("baseline_runs", base, "poor", "--lanes", "ops")


def case_pairs():
    base, new = tapped()
    edit(copy(new, "untimed"), lambda m: m["replay"].update(baseline_build="old.so"))
    return absent("pairs", base, "untimed")


def rounds():
    """Live servers, judged by speed; how fast they were on this machine is not what these rows are about."""
    base, new = good()
    with open("any-speed.json", "w") as f:
        f.write('{"name": "any speed", "speed": {"server_effect": 50}}')
    for name in ("live0", "live1", "new1"):
        if not os.path.exists(name):
            replay(base, name)
    return base, new


def case_rounds():
    base, new = rounds()
    return absent("rounds", base, new, "--new", "new1", "--baseline-live", "live0", "--lanes", "speed",
                  "--policy", "any-speed.json")


def case_live_answers():
    base, new = rounds()
    replay(base, "live-died", server=("--die-after", "4"))
    return absent("live_answers", base, new, "--new", "new1", "--baseline-live", "live0", "--baseline-live",
                  "live-died", "--lanes", "speed", "--policy", "any-speed.json")


def case_lane():
    """A replay that planned requests and holds none, and nobody named a lane: its ops alone would pass."""
    base, new = tapped()
    edit(copy(new, "answerless"), lambda m: m["plan"].update(timed=6))
    report = differ(base, "answerless")
    assert report["lanes"]["ops"]["verdict"] == "pass"
    assert report["verdict"] == "inconclusive"
    return report["lanes"]["tokens"]["verdict"]


def case_smoke():
    """A smoke test of which one planned answer never came; the others are sound."""
    good()
    assert run("differ", "--smoke", "good") == 0, open("out").read()
    code = run("differ", "--smoke", edit(copy("good", "stopped-smoke"), lambda m: m["plan"].update(timed=7)))
    assert "6 of 7 planned answers" in open("out").read(), open("out").read()
    return f"differ exit {code}"


# ---- the walk ------------------------------------------------------------------------------------

def table():
    """{row: what comes out} of the document."""
    text = open(f"{ROOT}/docs/verdicts.md").read().split("## What can be absent", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", text, re.M)
    assert len(rows) == len(dict(rows)), "two rows of one name"
    return {row: out.replace("`", "") for row, out in rows}


def main():
    rows, cases = table(), {n[5:]: f for n, f in globals().items() if n.startswith("case_") and n != "case_of_refused"}
    lines = re.findall(r"^ABSENCE\((\w+),", open(f"{ROOT}/differ/absence.def").read(), re.M)
    bad = [f"{r}: a row of docs/verdicts.md without a case" for r in rows if r not in cases]
    bad += [f"{c}: a case without a row in docs/verdicts.md" for c in cases if c not in rows]
    bad += [f"{n}: a line of absence.def without a row in docs/verdicts.md" for n in lines if n not in rows]
    suite("suite.jsonl", SUITE)
    for row, want in rows.items():
        if row not in cases:
            continue
        try:
            got = cases[row]()
        except AssertionError as e:
            got = f"failed: {e!r} at line {e.__traceback__.tb_next.tb_lineno}"
        if got != want:
            bad.append(f"{row}: comes out as {got}; the document says {want}")
    print("\n".join(bad) if bad else "every row comes out as it says")
    return bool(bad) or len(rows) < len(lines)


sys.exit(main())
