"""make_ops.py - describe ops that bring numbers into another form for tests/helpers/raw_ops; numpy computed their outputs."""
import os
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../helpers"))
from raw_ops import ENCODE, op, tensor

rng = numpy.random.default_rng(31)


def permute(layer, dtype, m, n, ld=0):
    a, perm = ENCODE[dtype](rng.standard_normal((m, n))), rng.permutation(n).astype(numpy.int32)
    op("permute_cols", layer, "_C::permute_cols", "none", m=m, n=n)
    tensor("in", "a", dtype, a, ld)
    tensor("in", "perm", "I32", perm)
    tensor("out", "c", dtype, numpy.take(a, perm, 1))


def words(numbers, axis):
    """Eight numbers in a word, the first one lowest."""
    parts = numpy.moveaxis(numbers.reshape([*numbers.shape[:axis], -1, 8, *numbers.shape[axis + 1:]]), axis + 1, -1)
    return (parts.astype(numpy.uint64) << numpy.arange(0, 32, 4, dtype=numpy.uint64)).sum(-1).astype(numpy.uint32).view(numpy.int32)


def dequantize(layer, k, n, group, offset, every):
    q, zeros = rng.integers(0, 16, (k, n)), rng.integers(offset, 16, (k // group, n))
    scales = (rng.random((k // group, n)) * 0.02 + 0.001).astype(numpy.float16)
    w = (q - numpy.repeat(zeros, group, 0)) * numpy.repeat(scales.astype(float), group, 0)
    op("dequantize", layer, "_C::awq_dequantize", "none", m=-(-k // every), n=n, k=k, bits=4, group_size=group, zero_offset=offset, act_order=0, every=every)
    tensor("in", "qweight", "I32", words(q, 0))
    tensor("in", "scales", "F16", scales)
    tensor("in", "qzeros", "I32", words(zeros - offset, 1))
    tensor("out", "c", "F16", w[::every].astype(numpy.float16))


permute("permute.F16", "F16", 3, 64)
permute("permute.BF16", "BF16", 5, 72, ld=80)
dequantize("dequantize.awq", 64, 128, 32, 0, 1)
dequantize("dequantize.offset", 96, 64, 32, 1, 1)
dequantize("dequantize.every", 128, 64, 32, 0, 7)
