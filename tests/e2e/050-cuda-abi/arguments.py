"""Compare the argument lists of our declarations with cuda.h's by the class of each argument: pointer, 4 or 8 bytes, 1 byte."""
import re
import sys

theirs, ours = open(sys.argv[1]).read(), "".join(open(f).read() for f in sys.argv[2:])
BYTES = {"CUdeviceptr": 8, "size_t": 8, "uint64_t": 8, "cuuint64_t": 8, "CUmemGenericAllocationHandle": 8, "long long": 8, "char": 1,
         "CUmodule": "p", "CUfunction": "p", "CUstream": "p", "CUevent": "p", "CUcontext": "p", "CUlibrary": "p", "CUkernel": "p", "CUgraph": "p",
         "CUgraphExec": "p", "CUgraphNode": "p", "CUhostFn": "p"}


def classes(args):
    out = []
    for a in re.split(r",(?![^()]*\))", " ".join(args.replace("\\", " ").split())):
        a = a.strip()
        if a in ("", "void"):
            continue
        words = re.sub(r"\b(const|unsigned)\b", "", a)
        out.append("p" if "*" in a else next((b for t, b in BYTES.items() if re.search(r"\b%s\b" % t, words)), 4))
    return out


names = dict(re.findall(r"^#define +(cu\w+) +(?:__CUDA_API_PT[SD][SZ]\()?(cu\w+)\)?", theirs, re.M))
declared = {names.get(n, n): classes(a) for n, a in re.findall(r"^CUresult CUDAAPI (cu\w+)\(([^;]*)\);", theirs, re.M)}
ours = ours.replace("FAKE_CUDA_LAUNCH_ARGS)", "(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, void *s, void **p, void **x))")
checked = 0
for name, args in re.findall(r"X\((cu\w+), \w+, \(((?:[^()]|\([^()]*\))*)\)\)", ours):
    want = declared.get(re.sub("_ptsz$", "", name), declared.get(name + "_v2"))
    if want is None or want != classes(args):
        sys.exit("%s: ours %s, cuda.h %s" % (name, classes(args), want))
    checked += 1
print("arguments of %d functions agree" % checked)
