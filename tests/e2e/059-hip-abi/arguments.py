"""Compare the argument lists of our declarations with HIP's header by the class of each argument: 8 bytes (pointers too), 4 bytes, 1 byte."""
import re
import sys

theirs, ours = open(sys.argv[1]).read(), open(sys.argv[2]).read()
theirs = re.sub(r"//[^\n]*|/\*.*?\*/", " ", theirs, flags=re.S)
WIDE = r"\*|\b(hipDeviceptr_t|size_t|uint64_t|long long|hip\w*(Stream|Event|Module|Function|Handle)_t)\b"


def classes(args):
    out = []
    for a in args.replace("\\", " ").replace("__dparm(0)", "").split(","):
        if a.split() not in ([], ["void"]):
            out.append(8 if re.search(WIDE, a) else 1 if re.search(r"\bchar\b", a) else 4)
    return out


checked, later = 0, []
for name, args in re.findall(r"X\((hip\w+), \w+, \(([^()]*)\)\)", ours):
    found = re.search(r"\b(hipError_t|const char\s*\*)\s+%s\(((?:[^()]|\([^()]*\))*)\);" % name, theirs)
    if not found:
        later.append(name)
    elif classes(found.group(2)) != classes(args):
        sys.exit("%s: ours %s, HIP's %s" % (name, classes(args), classes(found.group(2))))
    else:
        checked += 1
print("arguments of %d functions agree; not in this header: %s" % (checked, " ".join(later)))
