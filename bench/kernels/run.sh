#!/usr/bin/env bash
# run.sh - time the kernels in the tree and every build with a planted bug beside each other.
# SPDX-License-Identifier: Apache-2.0
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
LIB=${LIB:-$ROOT/lib}
make -s -C "$ROOT" bugs build/bench/kernels/kernels LIB="$LIB"
"$ROOT/build/bench/kernels/kernels" "$LIB/libtdkernels.so" "$LIB"/bugs/*/libtdkernels.so
