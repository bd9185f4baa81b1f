"""compare.py - compare the answers of a replay with the recording, by prompt id and repeat modulo the recorded repeats."""
import json, subprocess, sys

def read(folder):
    text = subprocess.run(["zstd", "-dcq", folder + "/exchanges.jsonl.zst"], capture_output=True, check=True).stdout
    rows = [json.loads(l) for l in text.splitlines()]
    return {(x["prompt_id"], x["repeat"]): x for x in rows if x["phase"] == "timed"}

good, new = read(sys.argv[1]), read(sys.argv[2])
m, g = (json.load(open(d + "/manifest.json")) for d in (sys.argv[2], sys.argv[1]))
repeats = 1 + max(r for _, r in good)
ok = {k: x for k, x in new.items() if not x.get("error_kind")}
equal = sum(x["token_ids"] == good[k[0], k[1] % repeats]["token_ids"] for k, x in ok.items())
kinds = sorted({x["error_kind"] for x in new.values() if x.get("error_kind")})
if kinds:
    print(sys.argv[2], "all answered are equal:", equal == len(ok), "planned:", len(new), "all failures named:", set(kinds) <= {"connect", "cut", "server", "timeout"})
else:
    print(sys.argv[2], f"{equal} of {len(new)} equal")
assert m["state"] == ("incomplete" if kinds else "complete") and m["replay"]["of"] == g["id"] and m["sampling"] == g["sampling"] and m["suite"] == g["suite"], m
assert m["server"]["model"] == g["server"]["model"]
