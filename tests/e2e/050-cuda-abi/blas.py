"""blas.py CUBLAS_API.H BLAS_ABI.H: compare the argument lists of our declarations of cuBLAS with its header's, by the class of each argument."""
import re
import sys

theirs, ours = open(sys.argv[1]).read(), open(sys.argv[2]).read()


def classes(args):
    words = [" ".join(a.replace("\\", " ").split()) for a in args.split(",")]
    return ["p" if "*" in w or re.search(r"cublasHandle_t|cudaStream_t", w) else 8 if "size_t" in w else 4 for w in words]


declared = {name: classes(args) for name, args in re.findall(r"^cublasStatus_t CUBLASWINAPI (cublas\w+)\(([^;]*)\);", theirs, re.M)}
for name, args in re.findall(r"#define (TD_\w+_ARGS) (\([^)]*\))", ours):
    ours = ours.replace(", %s)" % name, ", %s)" % args)
found = re.findall(r"X\((cublas\w+), (?:hipblas\w+, )?\w+, \(([^()]*)\)\)", ours)
for name, args in found:
    if declared.get(name) != classes(args):
        sys.exit("%s: ours %s, cublas_api.h %s" % (name, classes(args), declared.get(name)))
print("arguments of %d functions of cuBLAS agree" % len(found))
