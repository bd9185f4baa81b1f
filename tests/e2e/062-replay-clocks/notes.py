import json, sys
for note in json.load(open(sys.argv[1]))["lanes"]["speed"]["notes"]:
    print(note["verdict"] + ":", note["text"])
