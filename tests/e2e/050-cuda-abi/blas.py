"""blas.py CUBLAS_API.H CUBLASLT.H BLAS_ABI.H BLAS_LT_ABI.H: compare the argument lists of our declarations of cuBLAS with its headers', by the class of each argument."""
import re
import sys

theirs, ours = ("".join(open(f).read() for f in files) for files in (sys.argv[1:3], sys.argv[3:5]))


def classes(args):
    words = [" ".join(a.replace("\\", " ").split()) for a in args.split(",")]
    return ["p" if "*" in w or re.search(r"cublas(Lt)?Handle_t|cudaStream_t|cublasLt(MatmulDesc|MatrixLayout|MatmulPreference)_t", w) or "[]" in w
            else 8 if re.search("size_t|u?int64_t", w) else 4 for w in words]


declared = {name: classes(args) for name, args in re.findall(r"^cublasStatus_t CUBLASWINAPI (cublas\w+)\(([^;]*)\);", theirs, re.M)}
for name, args in re.findall(r"#define (TD_\w+_ARGS) (\([^)]*\))", ours):
    ours = ours.replace(", %s)" % name, ", %s)" % args)
found = re.findall(r"X\((cublas\w+), (?:hipblas\w+, )?\w+, \(([^()]*)\)\)", ours)
for name, args in found:
    if declared.get(name) != classes(args):
        sys.exit("%s: ours %s, the header %s" % (name, classes(args), declared.get(name)))
print("arguments of %d functions of cuBLAS agree" % len(found))
