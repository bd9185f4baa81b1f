# recorded.py - a fixture that the tap filled, for the look.py of e2e cases: read with zstd and json alone, nothing of Tapedeck's.
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
        """What was seen is kept or dropped, and what was kept is there."""
        for what, there in ("ops", self.ops), ("steps", self.steps):
            dropped = sum(v["n"] for k, v in self.sums.items() if k.startswith(f"{what}.dropped."))
            assert self.count(f"{what}.seen") == self.count(f"{what}.kept") + dropped, self.sums
            assert self.count(f"{what}.kept") == len(there), (what, len(there))

    def layers(self, n=28):
        """The layers of a step: each has all n once, in the same order, under their names."""
        by_step = collections.defaultdict(list)
        for op in self.ops:
            by_step[op["step"]].append(op["layer"])
        layers = by_step[self.steps[0]["step"]]
        assert len(set(layers)) == n and set(by_step) == {s["step"] for s in self.steps}
        assert all(got == layers for got in by_step.values())
        return layers

    def launches(self):
        """Those of the ops are those that the tap knew, and all that it saw have names."""
        mine = sum(len(op["impl"]["launches"]) for op in self.ops)
        assert mine == sum(k["launches"] for k in self.tap["kernels"] if k["recorded"]) == self.count("launches.known"), mine
        assert sum(k["launches"] for k in self.tap["kernels"]) == self.count("launches.seen")
