# cuda_gate.sh - for end-to-end cases that gate on a build with CUDA kernels, on the fake driver
# (tests/helpers/lib_fake_cuda.c): `judge HOW FIXTURE BUILD [OPTIONS...]` prints what came out,
# without what differs from run to run. HOW: what the fake kernels do (lib_fake_gptq.c).
# SPDX-License-Identifier: Apache-2.0
export TD_CUBLAS_LIBRARY=$O/tests/helpers/lib_fake_cublas.so TD_CUDA_LIBRARY=$O/tests/helpers/lib_fake_cuda.so TD_FAKE_CUDA_PLUGIN=$O/tests/helpers/lib_fake_gptq.so:$O/tests/helpers/lib_fake_simt.so
data=$ROOT/tests/unit/data
like=$data/gptq_like.fatbin
names() { sed "s|$data/||g; s|$O|O|g; s|$BIN|BIN|g"; }
judge() {
    how=$1 fx=$2 build=$3; shift 3
    echo "== $fx on $(basename "$build"), $how $*" | names
    "$BIN/gate" "$fx" --build "$build" --build-env "TD_FAKE_GPTQ=$how" --lanes ops -v "$@" 2>err >report
    echo "exit $?"
    sed -z -i -E -f "$ROOT/tests/fakes/unwrap.sed" report
    sed -n '/^lanes$/,$p' report | grep -vE '^(lanes|$)|not asked for|speed |covered|not shown|equal to' | sed 's/^ *//; s/; all are bit-equal//' | names
    grep '^ *op .*\(bad\|undecided\)' report | head -2 | sed 's/^ *//; s/column [0-9]*/column N/; s/byte [0-9]*/byte N/; s/error [0-9.e+]*/error N/; s/rms [0-9.e+]*/rms N/; s/limit [0-9.]*/limit N/g' | names
    grep ' error: ' err | head -1 | names
}
