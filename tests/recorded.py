# recorded.py - read a fixture that the tap filled, for the look.py of e2e cases: its ops, steps and
# ledger, and checks that hold for every recording. Uses zstd and json, and no code of Tapedeck.
# SPDX-License-Identifier: Apache-2.0
import collections, json, subprocess


class Recorded:
    def __init__(self, folder):
        self.folder = folder
        self.manifest = json.load(open(f"{folder}/manifest.json"))
        self.tap, self.sums = self.manifest["tap"], self.manifest["ledger"]
        self.ops, self.steps = self.rows("ops"), self.rows("steps")

    def rows(self, stream):
        raw = subprocess.run(["zstd", "-dcq", f"{self.folder}/{stream}.jsonl.zst"], capture_output=True).stdout
        return [json.loads(line) for line in raw.splitlines()]

    def count(self, name):
        return self.sums.get(name, {"n": 0})["n"]

    def balance(self):
        """Every op and step that the tap saw is stored or counted as dropped, and every stored one is there."""
        for what, there in ("ops", self.ops), ("steps", self.steps):
            dropped = sum(v["n"] for k, v in self.sums.items() if k.startswith(f"{what}.dropped."))
            assert self.count(f"{what}.seen") == self.count(f"{what}.kept") + dropped, self.sums
            assert self.count(f"{what}.kept") == len(there), (what, len(there))

    def layers(self, n=28):
        """The names of the n layers. Every step must have each layer once, in the same order."""
        by_step = collections.defaultdict(list)
        for op in self.ops:
            by_step[op["step"]].append(op["layer"])
        layers = by_step[self.steps[0]["step"]]
        assert len(set(layers)) == n and set(by_step) == {s["step"] for s in self.steps}
        assert all(got == layers for got in by_step.values())
        return layers

    def launches(self):
        """The launches of all ops must be the launches that the tap knew, and every launch it saw has a name."""
        mine = sum(len(op["impl"]["launches"]) for op in self.ops)
        assert mine == sum(k["launches"] for k in self.tap["kernels"] if k["recorded"]) == self.count("launches.known"), mine
        assert sum(k["launches"] for k in self.tap["kernels"]) == self.count("launches.seen")
