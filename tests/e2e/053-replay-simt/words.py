"""words.py FIXTURE - print how the build describes itself in the manifest of a replay."""
import json, sys

r = json.load(open(sys.argv[1] + "/manifest.json"))["replay"]
print(r["provider"] + ":", r["build_words"])
