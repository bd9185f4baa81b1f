#!/usr/bin/env python3
"""fuzz_fixture.py - change what the fields of real fixtures mean, and give the result to every program.

SPDX-License-Identifier: Apache-2.0
usage: BIN=... [SAN=...] [PROGRAMS="verify differ"] [KEEP=DIR] fuzz_fixture.py CASES SEED [FIRST]
       fuzz_fixture.py numbers [EVERY [FIRST]]

A case is a fixture that was read into its JSON lines, wire records and blobs, changed in one to three
places, and written again so that every checksum fits. A change knows what a field is: paths, methods,
URLs, names, links, lengths, counts, offsets, shapes, hashes, types, whole lines, frames, blobs, files. Each
fourth case takes evidence away instead: then `differ` and `gate` must not end with 0.

No program may crash, hang, take more memory than --max-memory says, end with a code that its help does
not have, change its input or a file outside its folder, print a file outside, or connect to another
place than the server on its command line. That server must be asked only for what generates text, and
gets no second request in one. CASES from FIRST (0) on; case N of a seed is always the same. Prints what did
not hold, with its case, then the count of cases and runs. `numbers`: each numeric member of each kind of
line becomes each of a few huge numbers in turn (or each EVERYth of these cases). KEEP: a folder for the fixtures that failed.
"""
import atexit
import collections
import copy
import hashlib
import http.server
import json
import os
import random
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import zstandard

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from fixture_bytes import blob, frame, frames, index_entry, trailer, x128

BIN, SAN = os.environ["BIN"], os.environ.get("SAN", "")
CACHE = tempfile.mkdtemp(prefix="fuzz-fixture-cache-") # what replays keep for later, as they should
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
CHOSEN = os.environ.get("PROGRAMS", "").split()
GOLDEN = ROOT + "/fixtures/golden"
MIB, SLACK_MIB, HANG_S = 128, 160, 300 if SAN else 100
SECRET, CANARY = "sk-fuzz-3141592653589793", "CANARY-2718281828459045"
KINDS = {"wire.zst": 1, "exchanges.jsonl.zst": 2, "steps.jsonl.zst": 3, "ops.jsonl.zst": 4, "ledger.jsonl.zst": 5}
TEXT_PATHS = {"/v1/completions", "/v1/chat/completions", "/inference/v1/generate", "/completion", "/generate"}
PROBES = {"/health", "/version", "/metrics", "/v1/models", "/props", "/slots", "/server_info", "/get_server_info", "/get_model_info", "/model_info",
          "/inference/v1/generate", "/ping"}


# ---- a fixture in memory -------------------------------------------------------------------------------------------

HUGE = "number 1e400"  # which json cannot write


def as_json(v):
    return json.dumps(v).replace(json.dumps(HUGE), "1e400").encode("utf-8", "surrogatepass")


class Fixture:
    """lines: name -> list of frames, each a list of JSON values. wire: frames of [t, stream, dir, flags, bytes]."""

    def __init__(self, folder):
        with open(folder + "/manifest.json", "rb") as f:
            self.manifest = json.load(f)
        self.lines, self.wire, self.blobs, self.raw, self.lies = {}, [], [], {}, []
        for name, kind in KINDS.items():
            data = open(f"{folder}/{name}", "rb").read()
            raws = [zstandard.ZstdDecompressor().decompress(f[56:], max_output_size=struct.unpack_from("<I", f, 28)[0]) for f in frames(data)]
            if kind == 1:
                self.wire = [list(self.records(raw)) for raw in raws]
            else:
                self.lines[name] = [[json.loads(line) for line in raw.splitlines()] for raw in raws]
        data, at = open(folder + "/blobs.pack", "rb").read(), 0
        while at < len(data) and data[at:at + 4] == b"TDBL" and data[at + 6] != 255:
            encoding, raw_len, stored_len = data[at + 6], *struct.unpack_from("<QQ", data, at + 8)
            name = (data[at + 24:at + 32][::-1] + data[at + 32:at + 40][::-1]).hex()
            self.blobs.append({"encoding": encoding, "raw_len": raw_len, "name": name, "stored": data[at + 64:at + 64 + stored_len]})
            at += 64 + stored_len
            if data[at + 8:at + 16] == b"TDBLEND1":
                at += 24

    @staticmethod
    def records(raw):
        at = 0
        while at < len(raw):
            t, stream, direction, flags, _, n = struct.unpack_from("<qIBBHI", raw, at)
            yield [t, stream, direction, flags, raw[at + 20:at + 20 + n]]
            at += 20 + n

    def write(self, folder, rng):
        os.mkdir(folder)
        lie = dict(self.lies)
        out, counts = {}, {}
        for name, kind in KINDS.items():
            data = b""
            pieces = self.wire if kind == 1 else self.lines[name]
            counts[name] = sum(map(len, pieces))
            for i, piece in enumerate(pieces):
                if kind == 1:
                    raw = b"".join(struct.pack("<qIBBHI", t, s & 0xffffffff, d & 255, fl & 255, 0, lie.get("wire", len(b)) & 0xffffffff) + b for t, s, d, fl, b in piece)
                else:
                    raw = b"".join((v if isinstance(v, bytes) else as_json(v)) + b"\n" for v in piece)
                raw_len = lie.get("raw_len")
                data += frame(lie.get("kind", kind), lie.get("number", i), lie.get("records", len(piece)), raw, raw_len)
            out[name] = data
        data, index = b"", b""
        for b in self.blobs:
            index += index_entry(b["name"], (len(data) + lie.get("offset", 0)) & (1 << 64) - 1, b["raw_len"])
            data += blob(b"", b["encoding"], b["raw_len"], b["stored"], b["name"])
        end = len(data)
        out["blobs.pack"] = data + (b"" if lie.get("no index") else blob(index, 255) + trailer((end + lie.get("trailer", 0)) & (1 << 64) - 1))
        counts["blobs.pack"] = len(self.blobs)
        listed = self.manifest.get("files") if isinstance(self.manifest, dict) else None
        for name, data in out.items():
            with open(f"{folder}/{name}", "wb") as f:
                f.write(data)
            fact = listed.get(name) if isinstance(listed, dict) else None
            if isinstance(fact, dict) and not lie.get("manifest"):
                for key, new in (("bytes", len(data)), ("records", counts[name]), ("xxh3-128", x128(data))):
                    if key in fact and (type(fact[key]), fact[key]) == self.sane.get((name, key)):
                        fact[key] = new
        with open(folder + "/manifest.json", "wb") as f:
            f.write(as_json(self.manifest))
        for name, what in self.raw.items():
            path = f"{folder}/{name}"
            what(path)

    def note_sane(self):
        """What the manifest says of files before a change: a changed value stays as it is."""
        self.sane = {(n, k): (type(v), v) for n, fact in self.manifest.get("files", {}).items() for k, v in fact.items()}


# ---- changes by meaning --------------------------------------------------------------------------------------------

LONG = "n" * 70000
FORGED = ["a\nverdict: pass", "\x1b[2J\x1b]0;x\x07", "::error::x", "%s%n%p", "\u009b31m", "a\rverdict: pass", "\ud800", "x\0y", "", "-o", "--help", LONG, "é" * 200, "|id", "$(id)"]

DANGEROUS = {"path", "method", "url", "model", "name", "checkpoint", "library", "blob", "hash", "shape", "strides", "dtype", "stored", "transforms", "files", "frames", "bytes", "prompt_id",
             "layer", "symbol", "category", "error", "kind"}


def numbers(v):
    n = v if isinstance(v, int) and not isinstance(v, bool) else 0
    return [0, 1, -1, n + 1, n - 1, n * 2, -n, 7, 255, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), 1 << 63,
            1e308, -1e308, 0.5, "NaN", "Infinity", str(n), str((1 << 63) - 1), "-1", "9" * 400, None]


class Change:
    def __init__(self, rng, outside, trap, fixture):
        self.rng, self.outside, self.trap, self.f = rng, outside, trap, fixture

    def paths(self):
        host = f"127.0.0.1:{self.trap}"
        o = self.outside
        return [f"@{host}/v1/completions", f"//{host}/v1/completions", f"http://{host}/v1/completions", f"http://{host}", host, f"/v1/completions@{host}",
                f"/v1/completions HTTP/1.1\r\nHost: {host}\r\n\r\nGET /admin", "/v1/unload_lora_adapter", "/v1/../admin", "/v1/completions?next=http://" + host,
                "/v1/completions#x", "\\\\" + host + "\\v1", "/etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/mem", o, o + "/canary", "../outside/canary",
                "../../outside", "../outside", "/v1/completions%0d%0aX: y", "file://" + o + "/canary", "[::1]", "~", ".", "..", "/", "a/../../outside/canary"] + FORGED

    def pick(self, values):
        return self.rng.choice(values)

    def value(self, key, old):
        """Another value for a member of this name."""
        r, key = self.rng, str(key).lower()
        if r.random() < 0.12:
            return self.pick([None, True, False, [], {}, "", 0, [[[]]], {"a": {"b": [1]}}, [old] * 3, {"x": old}])
        if isinstance(old, str) and r.random() < 0.2:
            return self.pick(FORGED)
        if key in ("shape", "strides", "slice") or isinstance(old, list) and old and all(isinstance(x, int) for x in old):
            new = list(old) if isinstance(old, list) else []
            how = r.randrange(7)
            if how == 0 and new:
                new[r.randrange(len(new))] = self.pick(numbers(new[0]))
            elif how == 1:
                new = new[:-1]
            elif how == 2:
                new = new + [self.pick(numbers(1))]
            elif how == 3:
                new = new[::-1]
            elif how == 4:
                new = new * r.choice([2, 3, 40])
            elif how == 5:
                new = []
            else:
                new = [1 << r.randrange(1, 63)] * max(1, len(new))
            return new
        if key in ("blob", "hash", "xxh3-128", "id", "fixture"):
            other = self.pick(self.f.blobs)["name"] if self.f.blobs else "0" * 32
            return self.pick([other, "0" * 32, "f" * 32, str(old).upper(), str(old)[:-1], str(old) + "0", "../../outside/canary", "g" * 32, 17, ""])
        if key in ("path", "url", "file", "checkpoint", "library", "build", "base", "name", "model", "suite", "cmd", "symbol", "layout", "tensors", "served_model"):
            return self.pick(self.paths())
        if key == "method":
            return self.pick(["GET", "DELETE", "CONNECT", "POST ", "", "post", "POST /admin HTTP/1.1\r\nX: ", "\n", "PUT", LONG, "P\0ST"])
        if key == "dtype":
            return self.pick(["F16", "F32", "BF16", "I8", "U8", "I32", "I64", "F8_E4M3", "Q4_1", "Q6_K", "Q8_0", "BOOL", "", "F99", "f16", LONG])
        if key in ("kind", "role", "act_rounding", "how", "phase", "api", "state", "tool", "status", "error_kind", "finish_reason", "format"):
            same = [x[key] for rows in self.f.lines.values() for fr in rows for x in fr if isinstance(x, dict) and isinstance(x.get(key), str)]
            return self.pick(same + ["a", "w", "c", "gemm", "gptq_gemm", "ggml_mul_mat", "none", "q8_1", "warmup", "timed", "tapped", "scores", "vllm", "llamacpp", "openai",
                                     "sglang", "complete", "writing", "interrupted", "exact", "ok", "cut"] + FORGED)
        if isinstance(old, bool):
            return not old
        if isinstance(old, (int, float)) or isinstance(old, str) and old.lstrip("-").isdigit():
            return self.pick(numbers(int(old) if isinstance(old, str) else old))
        if isinstance(old, str):
            return self.pick(FORGED + self.paths()[:3])
        if isinstance(old, list):
            new = list(old)
            how = r.randrange(5)
            return new[:-1] if how == 0 else new + new[-1:] if how == 1 else [] if how == 2 else new * r.choice([2, 50]) if how == 3 else new[::-1]
        return self.pick([None, 0, "", [], {}])

    def json(self, root):
        places = []

        def walk(node, key):
            for k, v in (node.items() if isinstance(node, dict) else enumerate(node)):
                name = k if isinstance(node, dict) else key
                places.append((node, k, name))
                if isinstance(v, (dict, list)):
                    walk(v, name)

        if not isinstance(root, (dict, list)):
            return "a line of nothing"
        walk(root, "")
        if not places:
            return "an empty line"
        names = sorted({str(name) for _, _, name in places})  # by name: else it would be a token nearly always
        chosen = self.rng.choices(names, [5 if n in DANGEROUS else 1 for n in names])[0]
        node, k, name = self.pick([p for p in places if str(p[2]) == chosen])
        old, how = node[k], self.rng.random()
        if how < 0.1:
            del node[k]
            return f"without {name}"
        if how < 0.15 and isinstance(node, dict):
            other = self.pick([x for x in places if isinstance(x[0], dict)])
            node[str(self.pick([other[1], "../" + str(k), "x\n", str(k).upper()]))] = copy.deepcopy(old)
            return f"{name} under another name"
        node[k] = self.value(name, old)
        return f"{name} = {str(node[k])[:80]!r}"

    def line(self):
        name = self.rng.choices(list(self.f.lines), [3, 1, 5, 1])[0]
        piece = self.pick(self.f.lines[name] or [[]])
        if not piece:
            return "nothing"
        i, how = self.rng.randrange(len(piece)), self.rng.random()
        if how < 0.80:
            return f"{name} line {i}: " + self.json(piece[i])
        what = self.pick(["dropped", "twice", "moved", "not JSON", "many"])
        if what == "dropped":
            del piece[i]
        elif what == "twice":
            piece.append(copy.deepcopy(piece[i]))
        elif what == "moved":
            piece.insert(0, piece.pop(i))
        elif what == "many":
            piece += [copy.deepcopy(piece[i]) for _ in range(300)]
        else:
            piece[i] = self.pick([b"{", b"[]", b"null", b"17", b"\"x\"", b"", b"{}", b"\xff\xfe", b"[" * 5000, b"{\"op\":1,\"op\":2}"])
        return f"{name} line {i} {what}"

    def everywhere(self):
        """The same value in every line: as a whole the fixture is of one piece."""
        name = self.rng.choices(list(self.f.lines) + ["manifest.json"], [6, 1, 5, 1, 3])[0]
        found = {}

        def walk(node):
            for k, v in node.items() if isinstance(node, dict) else ((None, x) for x in node):
                if k is not None:
                    found.setdefault(k, []).append((node, k))
                if isinstance(v, (dict, list)):
                    walk(v)

        walk([x for piece in self.f.lines[name] for x in piece if isinstance(x, dict)] if name in self.f.lines else self.f.manifest)
        if not found:
            return "nothing"
        key = self.rng.choices(sorted(found), [8 if k in DANGEROUS else 1 for k in sorted(found)])[0]
        node, k = found[key][0]
        new = self.value(key, node[k])
        for node, k in found[key]:
            node[k] = copy.deepcopy(new)
        return f"{name}: every {key} = {str(new)[:80]!r}"

    def wire(self):
        records = [x for piece in self.f.wire for x in piece]
        if not records:
            return "nothing"
        x, how = self.pick(records), self.rng.randrange(6)
        if how == 0:
            x[1] = self.pick([0, x[1] + 1, x[1] - 1, (1 << 32) - 1])
        elif how == 1:
            x[2] = self.pick([0, 1, 2, 3, 4, 255])
        elif how == 2:
            x[0] = self.pick([0, -1, (1 << 63) - 1, -(1 << 63), x[0] - (1 << 40)])
        elif how == 3:
            x[3] = self.rng.randrange(256)
        elif how == 4:
            old, new = self.pick([(b"Content-Length: ", b"Content-Length: 9"), (b"POST /", b"POST http://127.0.0.1:%d/" % self.trap), (b"HTTP/1.1 200", b"HTTP/1.1 100"),
                                  (b"chunked", b"gzip"), (b"\r\n", b"\n"), (b"data: ", b"event: x\ndata: "), (b"[DONE]", b"{}"), (b"\"text\"", b"\"txet\""),
                                  (b"path\":\"", b"path\":\"@127.0.0.1:%d" % self.trap), (b"HTTP/1.1 200", b"HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:%d/" % self.trap)])
            for y in records:
                y[4] = y[4].replace(old, new)
        else:
            x[4] = self.pick([b"", x[4] * 3, x[4][:len(x[4]) // 2], b"\0" * 100, b"{\"close\":{\"ok\":true}}"])
        return f"wire change {how}"

    def pack(self):
        if not self.f.blobs:
            return "nothing"
        b, how = self.pick(self.f.blobs), self.rng.randrange(8)
        if how == 0:
            b["raw_len"] = self.pick([0, 1, b["raw_len"] * 2, b["raw_len"] - 1, 1 << 32, 1 << 40, (1 << 64) - 1, 1 << 63])
        elif how == 1:
            b["encoding"] = self.pick([0, 1, 2, 3, 17, 254])
        elif how == 2:
            b["stored"] = self.pick([b"", b["stored"][:-1], b["stored"] + b"x", b"\x28\xb5\x2f\xfd\x80\xff", bytes(len(b["stored"]))])
        elif how == 3:
            b["name"] = self.pick(["0" * 32, "f" * 32, self.pick(self.f.blobs)["name"]])
        elif how == 4:
            self.f.blobs.append(dict(b))
        elif how == 5:
            self.f.blobs.remove(b)
        elif how == 6:
            self.f.lies.append((self.pick(["offset", "trailer"]), self.pick([1, -1, 64, 1 << 40, -(1 << 40), (1 << 63) - 1])))
        else:
            self.f.lies.append(("no index", True))
        return f"pack change {how}"

    def frame(self):
        what = self.pick(["raw_len", "kind", "number", "records", "wire", "manifest"])
        self.f.lies.append((what, self.pick([0, 1, 2, 5, 255, 65535]) if what == "kind" else self.pick([0, 1, 3, 1 << 16, (1 << 28) - 1, (1 << 32) - 1])))
        return f"frames lie: {self.f.lies[-1]}"

    def file(self):
        name = self.pick(list(KINDS) + ["blobs.pack", "manifest.json", "writer.lock", "another"])
        o = self.outside
        what = self.pick(["link to canary", "link to zero", "link to a folder", "fifo", "folder", "gone", "empty", "cut", "read-only", "hard link", "loop", "socket"])

        def make(path):
            if what == "cut":
                if os.path.exists(path):
                    os.truncate(path, self.cut % (os.path.getsize(path) + 1))
                return
            if what == "read-only":
                if os.path.exists(path):
                    os.chmod(path, 0o400)
                return
            if os.path.exists(path):
                os.unlink(path)
            if what == "fifo":
                os.mkfifo(path)
            elif what == "folder":
                os.mkdir(path)
            elif what == "empty":
                open(path, "w").close()
            elif what == "socket":
                with socket.socket(socket.AF_UNIX) as s:
                    here = os.getcwd()
                    os.chdir(os.path.dirname(path))
                    s.bind(os.path.basename(path))
                    os.chdir(here)
            elif what == "hard link":
                shutil.copyfile(o + "/canary", path) # a hard link to somebody else's file cannot be told from a file
            elif what != "gone":
                os.symlink({"link to canary": o + "/canary", "link to zero": "/dev/zero", "loop": os.path.basename(path)}.get(what, o), path)

        self.cut = self.rng.randrange(1 << 20)
        self.f.raw[name] = make
        return f"{name}: {what}"

    def any(self):
        return self.rng.choices([self.line, self.everywhere, lambda: "manifest: " + self.json(self.f.manifest), self.wire, self.pack, self.frame, self.file],
                                [40, 25, 16, 8, 9, 4, 5])[0]()


NUMBERS = [HUGE, 1 << 63, 1 << 64, -1, 1e308, -(1 << 63), 0]


def numeric_members(f):
    """[(file, names that lead there)] of all numbers of a fixture; of a list the first, of equal lines the first."""
    found = {}

    def walk(node, file, line, path, steps):
        if isinstance(node, bool) or not isinstance(node, (dict, list, int, float)):
            return
        if isinstance(node, (int, float)):
            found.setdefault((file, path), (line, steps))
        for k, v in node.items() if isinstance(node, dict) else enumerate(node[:1]) if isinstance(node, list) else ():
            walk(v, file, line, path + (k,), steps + (k,))

    walk(f.manifest, "manifest.json", None, (), ())
    for name, pieces in f.lines.items():
        for i, piece in enumerate(pieces):
            for j, line in enumerate(piece):
                walk(line, name, (i, j), (line.get("fact", line.get("kind")),) if isinstance(line, dict) else (), ())
    return sorted(found.items(), key=repr)


def put_number(f, file, line, steps, value):
    node = f.manifest if line is None else f.lines[file][line[0]][line[1]]
    for k in steps[:-1]:
        node = node[k]
    node[steps[-1]] = value


# ---- evidence taken away -------------------------------------------------------------------------------------------

def each(f, name, change):
    f.lines[name] = [[x for x in (change(x) for x in piece) if x is not None] for piece in f.lines[name]]


def without(*keys):
    return lambda x: {k: v for k, v in x.items() if k not in keys}


def no_data(x):
    for t in x["in"]:
        t.pop("blob", None), t.pop("ref", None), t.update(stored=False)
    return x


def failed(x):
    return {**x, "error": "the server ended", "error_kind": "cut"}


def first_only(name):
    def change(f):
        seen = []
        each(f, name, lambda x: None if seen else (seen.append(1), x)[1])
    return change


def all_of(name, change):
    return lambda f: each(f, name, change)


OPS, EXCHANGES = "ops.jsonl.zst", "exchanges.jsonl.zst"
LACKING = {  # by kind of fixture: what is taken away
    "ops": {"no op": all_of(OPS, lambda x: None), "no input": all_of(OPS, no_data), "no kind": all_of(OPS, without("kind")), "no blob": lambda f: f.blobs.clear(),
            "no output": all_of(OPS, without("out")), "no dtype": all_of(OPS, lambda x: {**x, "in": [without("dtype")(t) for t in x["in"]]}),
            "no attrs": all_of(OPS, without("attrs"))},
    "requests": {"no exchange": all_of(EXCHANGES, lambda x: None), "no token": all_of(EXCHANGES, without("token_ids", "text", "n_tokens", "token_text", "text_base64", "events")),
                 "all failed": all_of(EXCHANGES, failed), "only the warm-up": all_of(EXCHANGES, lambda x: {**x, "phase": "warmup"}),
                 "no request": all_of(EXCHANGES, without("request", "path"))},
    "replayed ops": {"no op": all_of(OPS, lambda x: None), "no judge": all_of(OPS, without("judge")), "one op of three": first_only(OPS),
                     "no origin": all_of(OPS, without("origin")), "no candidate": all_of(OPS, lambda x: {**x, "judge": {**x["judge"], "candidate": None}})},
    "replayed requests": {"no exchange": all_of(EXCHANGES, lambda x: None), "one exchange": first_only(EXCHANGES), "all failed": all_of(EXCHANGES, failed),
                          "no token": all_of(EXCHANGES, without("token_ids", "text", "n_tokens", "token_text", "text_base64", "events"))},
}


# ---- servers -------------------------------------------------------------------------------------------------------

class Server:
    """Answers of one text for each prompt; notes what was asked."""

    def __init__(self):
        self.asked, this = [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

            def log_message(self, *args):
                pass

            def reply(self, status, body, kind="application/json"):
                self.send_response_only(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                this.asked.append(("GET", self.path, self.headers.get("Host")))
                body = {"/health": "{}", "/version": '{"version":"0.99.fuzz"}', "/v1/models": '{"data":[{"id":"m","owned_by":"vllm","max_model_len":4096}]}'}.get(self.path)
                self.reply(200 if body else 404, (body or '{"detail":"Not Found"}').encode())

            def do_POST(self):
                this.asked.append(("POST", self.path, self.headers.get("Host")))
                try:
                    body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                    words = "".join(c for c in str(body.get("prompt")) if c.isalpha())[:5] or "x"
                    n = max(1, min(int(body.get("max_tokens", 4)), 6))
                except (ValueError, AttributeError, TypeError):
                    return self.reply(400, b'{"error":{"message":"bad","type":"BadRequestError","code":400}}')
                if not body.get("stream"):
                    return self.reply(404, b'{"detail":"Not Found"}')
                out = b""
                for i in range(n):
                    c = {"index": 0, "text": " " + words + str(i), "token_ids": [100 + i], "finish_reason": "length" if i + 1 == n else None}
                    out += b"data: " + json.dumps({"id": "c", "object": "text_completion", "choices": [c]}).encode() + b"\n\n"
                out += b"data: " + json.dumps({"id": "c", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": n, "total_tokens": n + 3}}).encode() + b"\n\n"
                self.reply(200, out + b"data: [DONE]\n\n", "text/event-stream")

            def __getattr__(self, name):
                if name.startswith("do_"):
                    return lambda: (this.asked.append((name[3:], self.path, None)), self.reply(405, b"{}"))
                raise AttributeError(name)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *a: None
        self.url = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Trap:
    """A port that nobody may call."""

    def __init__(self):
        self.calls, self.listener = 0, socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            s, _ = self.listener.accept()
            self.calls += 1
            s.close()


# ---- runs ----------------------------------------------------------------------------------------------------------

CODES = {"fixture": {0, 1, 2, 4}, "replay": {0, 2, 4}, "differ": {0, 1, 2, 3, 4}, "gate": {0, 1, 2, 3, 4}}


def commands(kind, url):
    """name -> command over the changed fixture F. `base`: what it was before, `new` a replay of that."""
    F = "F"
    ask = ["--server", url, "-H", "Authorization: Bearer " + SECRET, "-t", "5"]
    p = {"verify": ["fixture", "verify", F], "show": ["fixture", "show", F, "--all"], "ls": ["fixture", "ls", F], "exchange": ["fixture", "show", F, "exchange", "1"],
         "op": ["fixture", "show", F, "op", "22"], "step": ["fixture", "show", F, "step", "0"], "wire": ["fixture", "show", F, "wire", "1"],
         "ledger": ["fixture", "show", F, "ledger"], "ops": ["fixture", "ops", F], "steps": ["fixture", "steps", F], "pack": ["fixture", "pack", F, "-o", "x.tdz"],
         "export": ["fixture", "export", F, "exported"], "extract": ["fixture", "extract", F, "-o", "cut", "--per-group", "1"], "merge": ["fixture", "merge", F, "base", "-o", "merged"],
         "code": ["fixture", "code", F, "-o", "code.bin"], "redact": ["fixture", "redact", F, "-o", "redacted", "--no-text"], "repair": ["fixture", "repair", "copy"]}
    if kind.startswith("replayed"):
        return {**p, "differ": ["differ", "base", F, "--lanes", "ops" if kind == "replayed ops" else "tokens"], "differ all": ["differ", "base", F, "--json", "report.json", "--junit", "j.xml"],
                "differ self": ["differ", F, F]}
    p.update({"differ": ["differ", F, "new", "--lanes", "ops" if kind != "requests" else "tokens"], "differ all": ["differ", F, "new", "--json", "report.json", "--markdown", "r.md"],
              "differ base": ["differ", "base", F], "smoke": ["differ", "--smoke", F], "smoke -v": ["differ", "--smoke", F, "-v"]})
    if kind != "requests":
        p.update({"replay": ["replay", F, "-o", "replayed", "--provider", "cpu", "--deadline", "20"], "gate": ["gate", F, "--provider", "cpu", "--lanes", "ops"]})
    p.update({"send": ["replay", F, "-o", "sent", *ask], "gate sent": ["gate", F, *ask[:2], *ask[4:], "--lanes", "tokens"]})
    return p


# Taken away is what a replay needs. A replay that was made before holds its own evidence: `differ` may pass it.
ONLY = {"no request": ("gate sent",), **{name: ("gate",) for name in ("no input", "no blob", "no output", "no dtype", "no attrs")}}
JUDGES = {"ops": ("differ", "gate"), "requests": ("differ", "gate sent"), "replayed ops": ("differ",), "replayed requests": ("differ",)}


def limits():
    if not SAN:
        resource.setrlimit(resource.RLIMIT_AS, ((MIB + 4096) << 20,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30,) * 2)


def run(command, folder):
    """(exit code or "HANGS", peak memory in MiB, output)"""
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen([f"{BIN}/{command[0]}", *command[1:], "--max-memory", f"{MIB}M"], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=folder,
                             preexec_fn=limits, env={**os.environ, "TMPDIR": folder + "/tmp", "HOME": folder + "/tmp", "XDG_CACHE_HOME": CACHE})
        end, pause = time.monotonic() + HANG_S, 0.001
        while True:
            pid, status, usage = os.wait4(p.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                p.kill()
                os.wait4(p.pid, 0)
                p.returncode = -9
                return "HANGS", 0, ""
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        p.returncode = 0
        out.seek(0)
        return os.waitstatus_to_exitcode(status), usage.ru_maxrss >> 10, out.read(4 << 20).decode(errors="replace")


def state(folder):
    """All that is in a folder, links not followed."""
    out = []
    for at, folders, files in os.walk(folder):
        for name in sorted(folders + files):
            path = os.path.join(at, name)
            s = os.lstat(path)
            what = os.readlink(path) if os.path.islink(path) else hashlib.md5(open(path, "rb").read()).hexdigest() if os.path.isfile(path) else ""
            out.append((path, s.st_mode, s.st_size, s.st_mtime_ns if at == folder and not os.path.isdir(path) else 0, what))
    return sorted(out)


class Bases:
    """What is changed: real fixtures, their replays, and a recording of the server above."""

    def __init__(self, work, server):
        self.of = {}
        suite = work + "/suite.jsonl"
        with open(suite, "w") as f:
            f.write('{"id":"one","category":"short","prompt":"In the beginning","max_tokens":4}\n{"id":"two","category":"short","prompt":"The evening","max_tokens":5,"concurrency":2}\n')
        self.make(work, "requests", ["record", "--server", server.url, "-o", "requests", "--suite", suite, "--repeat", "2", "--gemms", "off", "--scores", "off"])
        self.make(work, "replayed-requests", ["replay", "requests", "-o", "replayed-requests", "--server", server.url])
        self.make(work, "replayed-ops", ["replay", GOLDEN + "/v1-llamacpp", "-o", "replayed-ops", "--provider", "cpu"])
        llama, requests, replayed_ops, replayed_requests = GOLDEN + "/v1-llamacpp", work + "/requests", work + "/replayed-ops", work + "/replayed-requests"
        # kind, fixture, base, new
        self.rows = [("ops", llama, llama, replayed_ops), ("requests", requests, requests, replayed_requests), ("replayed ops", replayed_ops, llama, replayed_ops),
                     ("replayed requests", replayed_requests, requests, replayed_requests), ("ops", GOLDEN + "/v1-vllm-gpu", llama, replayed_ops),
                     ("synthetic", GOLDEN + "/v1-synthetic", llama, replayed_ops)]
        self.read = {path: Fixture(path) for _, path, _, _ in self.rows}

    def make(self, work, name, command):
        p = subprocess.run([f"{BIN}/{command[0]}", *command[1:]], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if p.returncode:
            sys.exit(f"{name}: {command[0]} ends with {p.returncode}: {p.stdout}")


class Fuzz:
    def __init__(self, work):
        self.work, self.server, self.trap = work, Server(), Trap()
        self.runs, self.bad, self.codes = 0, [], collections.Counter()
        self.bases = Bases(work, self.server)
        self.sound = {kind: self.codes_of(kind, path, base, new) for kind, path, base, new in self.bases.rows[:4]}
        for kind, names in JUDGES.items():
            for name in names:
                if self.sound[kind].get(name) != 0:
                    self.fail("base", f"{kind}: {name} of the unchanged fixture ends with {self.sound[kind].get(name)}")

    def fail(self, case, what):
        self.bad.append((case, what))
        print(f"FAIL case {case}: {what}", flush=True)

    def lay_out(self, base, new, fixture):
        """A new place: place/work holds F and links to what it is compared with; place/outside a file that nobody may touch."""
        place = tempfile.mkdtemp(dir=self.work, prefix="case-")
        for name in ("work", "outside", "work/tmp"):
            os.mkdir(f"{place}/{name}")
        with open(place + "/outside/canary", "w") as f:
            f.write(CANARY * 40)
        os.symlink(base, place + "/work/base")
        os.symlink(new, place + "/work/new")
        if isinstance(fixture, str):
            shutil.copytree(fixture, place + "/work/F", symlinks=True)
        return place

    def codes_of(self, kind, path, base, new):
        place = self.lay_out(base, new, path)
        shutil.copytree(path, place + "/work/copy")
        return {name: run(command, place + "/work")[0] for name, command in commands(kind, self.server.url).items() if name in JUDGES.get(kind, ())}

    def numbers(self, every, first):
        """Each number of the first four fixtures becomes each of NUMBERS. Returns the count of cases."""
        rows = [(row, member, value) for row in self.bases.rows[:4] for member in numeric_members(self.bases.read[row[1]]) for value in NUMBERS]
        for i, (row, member, value) in list(enumerate(rows))[first::every]:
            self.one(0, i, row, (member, value))
        return len(rows[first::every])

    def one(self, seed, case, row=None, number=None):
        rng = random.Random(seed * 1000003 + case)
        kind, path, base, new = row or rng.choice(self.bases.rows)
        lacks = not number and case % 4 == 3 and kind in LACKING
        place = self.lay_out(base, new, None)
        outside = place + "/outside"
        f = copy.deepcopy(self.bases.read[path])
        f.note_sane()
        if lacks:
            name = rng.choice(sorted(LACKING[kind]))
            LACKING[kind][name](f)
            notes = [name]
        elif number:
            ((file, _), (line, steps)), value = number
            put_number(f, file, line, steps, value)
            notes = [f"{file} {line} {steps} = {value!r}"]
        else:
            change = Change(rng, outside, self.trap.port, f)
            notes = [change.any() for _ in range(rng.choice([1, 1, 2, 3]))]
        f.write(place + "/work/F", rng)
        what = f"{case} ({kind}: {'; '.join(notes)})"
        held = len(self.bad)
        before, out_before = state(place + "/work/F"), state(outside)
        for name, command in commands(kind, self.server.url).items():
            if CHOSEN and name.split()[0] not in CHOSEN and command[0] not in CHOSEN:
                continue
            if lacks and name not in JUDGES[kind] + ("verify",):
                continue
            self.look(what, name, command, place, lacks and name in ONLY.get(notes[0], JUDGES[kind]))
            if state(outside) != out_before:
                self.fail(what, f"{name} changed a file outside")
            if state(place + "/work/F") != before:
                self.fail(what, f"{name} changed its input")
                before = state(place + "/work/F")
        if len(self.bad) > held and os.environ.get("KEEP"):
            shutil.copytree(place + "/work/F", f"{os.environ['KEEP']}/{seed}-{case}", symlinks=True)
        for at, folders, _ in os.walk(place):
            for x in folders:
                os.path.islink(os.path.join(at, x)) or os.chmod(os.path.join(at, x), 0o700)
        shutil.rmtree(place)

    def look(self, what, name, command, place, must_not_pass):
        work = place + "/work"
        if name == "repair":
            try:
                shutil.copytree(work + "/F", work + "/copy", symlinks=True)
            except (shutil.Error, OSError):
                return  # a FIFO or a socket: no copy of it
        calls, asked = self.trap.calls, len(self.server.asked)
        there = set(os.listdir(work))
        code, peak, said = run(command, work)
        self.runs += 1
        self.codes[f"{command[0]} {code}"] += 1
        if code not in CODES[command[0]]:
            self.fail(what, f"{name} ends with {code}: {said[-600:]}")
        if "Sanitizer" in said or "runtime error" in said:
            self.fail(what, f"{name}: {said[:3000]}")
        if not SAN and peak > MIB + SLACK_MIB:
            self.fail(what, f"{name} takes {peak} MiB, it may take {MIB}")
        if "hard link" not in what and (CANARY in said or any(
                CANARY in open(os.path.join(at, x), errors="replace").read() for at, _, files in os.walk(work) if "/F" not in at and "/copy" not in at
                for x in files if os.path.isfile(os.path.join(at, x)) and not os.path.islink(os.path.join(at, x)))):
            self.fail(what, f"{name} tells what is in a file outside")
        if any(line.startswith(("verdict: pass", "::error::")) and code for line in said.replace("\r", "\n").splitlines()):
            self.fail(what, f"{name} ends with {code} and prints a forged line: {said[-600:]}")
        if any(c in said for c in "\x1b\x07\x9b"):
            self.fail(what, f"{name} prints control characters")
        if self.trap.calls != calls:
            self.fail(what, f"{name} calls another port")
        for method, path, host in self.server.asked[asked:]:
            if (method, path.split("?")[0]) not in {("POST", p) for p in TEXT_PATHS} | {("GET", p) for p in PROBES} | {("POST", "/reset_prefix_cache")} or host != self.server.url:
                self.fail(what, f"{name} asks for {method} {path!r} of {host}")
        if must_not_pass and code == 0:
            self.fail(what, f"{name} passes without evidence: {said[-600:]}")
        left = set(os.listdir(work)) - there - {x for x in command if "/" not in x}
        if left or set(os.listdir(place)) != {"work", "outside"} or os.listdir(work + "/tmp"):
            self.fail(what, f"{name} leaves {sorted(left)} {os.listdir(work + '/tmp')}")
            shutil.rmtree(work + "/tmp")
            os.mkdir(work + "/tmp")


def main():
    numbers = sys.argv[1] == "numbers"
    if numbers:
        cases, (seed, first) = 0, ([int(x) for x in sys.argv[2:]] + [1, 0][len(sys.argv) - 2:])
    else:
        cases, seed, first = ([int(x) for x in sys.argv[1:]] + [0])[:3]
    with tempfile.TemporaryDirectory(prefix="td-fuzz-") as work:
        fuzz = Fuzz(work)
        for case in range(first, first + cases):
            fuzz.one(seed, case)
        if numbers:
            cases = fuzz.numbers(seed, first)
        if os.environ.get("SHOW"):
            print(dict(sorted(fuzz.codes.items())))
    print(f"fuzz_fixture: {cases} cases, {fuzz.runs} runs, {len(fuzz.bad)} that did not hold")
    return bool(fuzz.bad)


sys.exit(main())
