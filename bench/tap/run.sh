#!/usr/bin/env bash
# run.sh - measure what the tap costs: per call while asleep; in tokens per second and CPU per token while armed. Asserts nothing.
# usage: BIN=… LIB=… bench/tap/run.sh [demo|llamacpp|vllm|vllm_gpu|cuda] [ROUNDS], or run.sh tools DIR
#   ROUNDS    20 by default; a figure to quote needs 60
#   demo      the embedded server; MODEL=DIR (default demo/checkpoints/gptq4)
#   llamacpp  as `make live-llamacpp` put it into TD_LIVE_CACHE (default ~/.cache/tapedeck-live)
#   vllm      as `make live-vllm` put it there; MODEL=DIR (default: its bf16 model)
#   vllm_gpu  PYTHON=… that imports vllm and sees a GPU; MODEL=DIR of GPTQ weights (tests/live/vllm_gpu.sh model makes one);
#             GRAPHS=1 with CUDA graphs; BACKEND=auto with the kernels that vLLM chooses (default exllama)
#   cuda      only asleep: a launch of a graph and a GEMM of cuBLAS, before functions that do nothing (the driver is that of
#             the tests; `make tests` builds it)
# environment:
#   STREAMS="1 4"      requests in flight
#   TOKENS=N           tokens of each request
#   MODES=sample,…     measure only these modes beside asleep
#   BENCH_TOOLS=DIR    asleep, libnothing.so and tapctl are there (run.sh tools DIR builds them), and not built: for a machine
#                      without libcurl's headers
#   BENCH_SECONDS=600  begin no further round after that
#   BENCH_KEEP=DIR     save each round in DIR, and go on where an earlier run with this folder ended. A file holds
#                      rounds: mode -> [tokens/s, CPU ms of the server a token, CPU ms of the recorder a token, median ms between events]
#                      ops:    mode -> [recorded, dropped, ms rested]
# SPDX-License-Identifier: Apache-2.0
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib} O=${O:-$ROOT/build} CC=${CC:-cc}
CACHE=${TD_LIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tapedeck-live}
kind=demo
case ${1:-} in demo | llamacpp | vllm | vllm_gpu | cuda) kind=$1; shift ;; tools) kind=tools tools=$(realpath -m "${2:?a folder}"); set -- ;; esac
case $kind in
demo) arguments=("$BIN" "${MODEL:-$ROOT/demo/checkpoints/gptq4}") ;;
llamacpp) arguments=("$CACHE/llamacpp") ;;
vllm) arguments=("$CACHE/vllm" "${MODEL:-$CACHE/vllm/models/bf16}") ;;
vllm_gpu) arguments=("${PYTHON:-python3}" "${MODEL:?a folder with GPTQ weights}") ;;
cuda) arguments=("$O/tests/helpers/lib_fake_cuda.so") ;;
tools) arguments=(.) ;;
esac
[ -e "${arguments[-1]}" ] || { echo "bench/tap: ${arguments[-1]} is not there; run make live-$kind first (TD_LIVE_CACHE says where it lies)" >&2; exit 4; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$ROOT"
build_tools() { # DIR
    local flags="-std=c17 -O2 -D_GNU_SOURCE -I. -pthread"
    $CC $flags -fPIC -shared bench/tap/nothing.c -o "$1/libnothing.so"
    $CC $flags bench/tap/asleep.c -o "$1/asleep" -L"$1" -lnothing -ldl -Wl,-rpath,'$ORIGIN'
    $CC $flags bench/tap/tapctl.c recorder/tap_client/*.c "$O/libtapedeck.a" -o "$1/tapctl" -lcurl -lzstd -llz4 -lcjson -lxxhash -lm -ldl
}
if [ "$kind" = tools ]; then
    mkdir -p "$tools"
    build_tools "$tools"
    exit
fi
if [ -n "${BENCH_TOOLS:-}" ]; then cp "$BENCH_TOOLS"/{libnothing.so,asleep,tapctl} "$work"; else build_tools "$work"; fi
[ $kind != cuda ] || { ln -s "${arguments[0]}" "$work/libcuda.so.1"; export LD_LIBRARY_PATH=$work; }
export TD_TAP_DIR="$work/run" TD_TAP_LIBRARY="$LIB/libtapedeck-tap.so"
python3 bench/tap/bench.py "$work" "${1:-20}" "$TD_TAP_LIBRARY" "$kind" "${arguments[@]}"
