#!/usr/bin/env bash
# vllm_gpu.sh STAGE... - test Tapedeck with a real vLLM on an NVIDIA GPU, stage by stage: record it
# with its GEMMs, replay its kernels from its own library, judge. A stage takes minutes and can be
# run again. It leaves its results in TD_GPU_WORK (default /tmp/tapedeck-gpu) and needs only the
# stages named here after "after", and `make all bugs` with nvcc.
#   facts     print the machine, the libraries, the names of vLLM's kernels
#   model     make two small GPTQ models of random weights, 4 bit and 8 bit (random_gptq.py)
#   record    after model: record suite quick on vLLM with exllama's kernels, eager, with the tap in
#             it
#   replay    after record: the recorded GEMMs on vLLM's own library, on our kernels, on ours with
#             planted bugs
#   server    after record: gate against the server started anew
#   ledger    after model: one request in flight; the ops must agree with the requests' token
#             counts, the launches with torch's profiler, and C with torch's A W
#   ledger-default  after model: the same at vLLM's defaults (Machete, CUDA graphs): the ops' count, and C
#   eight     after model: 8 bit, recorded and replayed
#   kill      after record: record is killed while others ask the server; then the server is killed
#             during record
#   marlin    after model: record and replay with Marlin's kernels
#   overflow  a model of the same function whose numbers overflow float16 in exllama's kernel, not
#             in Marlin's
#   exllama-builds  builds of vLLM's own 4-bit kernel with one edit each, beside recordings of five forms
#             of model (plain, all bits in the scales, act-order, groups of 32, zero points that
#             differ): wrong ones must be caught, right ones pass; a table at the end. BUILDS=OUT of
#             exllama_builds.py, made where pip and nvcc are; FORMS=WORD as below; MAX_OPS=480, SLOW_OPS=96 ops of
#             each; ten to fifteen minutes for all forms, two to four for one
#   marlin-builds  the same with builds of vLLM's Marlin beside recordings of four forms (g128, awq: zero points that
#             differ, act: act-order, g32). BUILDS=OUT of marlin_builds.py; ONLY=PATTERN: builds whose name fits; FORMS, MAX_OPS,
#             SLOW_OPS as above; a quarter of an hour for all forms, three to five minutes for one
#   small-effect  builds of that kernel that are 2 % slower, everywhere and where K > N, and an equal one,
#             ROUNDS=10 times each: how often each is called slower, by the policy's defaults and by smaller
#             effects. BENCH_SECONDS=480 at a time; run it again for more rounds
#   graphs    after model: vLLM's default, CUDA graphs: record --graphs with exllama and Marlin,
#             replay; and the report without --graphs
#   twins     after model: vLLM's default, CUDA graphs seen by their twins, without --graphs:
#             Machete, Marlin, a model that is not quantised; a server without the tap
#             answers the same
#   passive   after model: the traffic of others captured beside the tap, at vLLM's defaults: answers and
#             ops are judged. It needs the right to capture (CAP_NET_RAW)
#   open      after model: MINUTES=30 of an open server at vLLM's defaults with changing load, arms,
#             disarms and kills of the recorder, beside one without the tap (on port TD_GPU_PORT + 1) with
#             the same load: answers, memory and speed stay
#   open-start, open-wait  the same, detached; then show how far it is, after WAIT=0 seconds at most
#   gpu-time  vLLM's default: the share of kernels in the GPU's time, by record's window; in one server,
#             whose answers and speed must be those of before
#   nodes     after model: cost of the copies in graphs, between two servers (ROUNDS pairs; SAME=1:
#             equal servers)
#   flight    the model of overflow, 0.1 % of its GEMMs sampled: record --flight must name the first
#             bad launch, and its ops replay
#   scores    after record: scores and tokens of the same server, judged five times: no alarm
#   timing    after record: two equal builds side by side, five times: no alarm of speed; the GPU's
#             clocks
#   ring      after model: record --ring-mib: the default ring is too small for the op of a long
#             prompt
#   cublas    after model: what cuBLAS multiplies: the lm_head; then a model
#             that is not quantised, with biases; replay on the same cuBLAS must be bit for bit
#   other-cublas  after cublas: the second of those recordings by others of cuBLAS's algorithms (other_cublas.c), as
#             the build and as the baseline: right; and with 0.1 % more in half of the columns: wrong. It needs a C compiler
#   operators after model: vLLM's default kernels (Machete), eager: the operators that the tap counts,
#             beside the launches of their kernels; then with CUDA graphs
#   machete   vLLM's default kernels, eager: plain, act-order, one group, 8 bits, bfloat16 (FORMS=WORD:
#             only the forms whose name contains WORD); and what the sleeping tap costs them
#             (MAX_OPS=N: judge N ops of each)
#   torch     recordings of vLLM's default kernels and of cuBLAS, run by provider torch from the same
#             Python: all pass; by other operators of the same meaning; with a fault in the operator
#             (faulty_torch), which must be caught (FORMS and MAX_OPS as above)
#   awq       AWQ with zero points that differ, on vLLM's default kernel (Machete): recorded, named, run
#             by provider torch and by cpu, with a fault in the operator (FORMS and MAX_OPS as above)
#   awq-op    AWQ by vLLM's own operators for it (groups of 256): awq_gemm, and awq_dequantize with the product behind it;
#             run by provider torch and by cpu, with a fault in each
#   marlin-op, exllama-op: the same with --linear-backend marlin and exllama: act-order, one group (Marlin
#             alone), 8 bits, biases, and the recorded launches on vLLM's own library
#   half-sums exllama's operator, which adds in halves, beside a recording of Marlin's, both by provider torch: right, and with a row of
#             zeros: wrong (MAX_OPS=240 ops)
#   moe       a mixture of 8 experts, 4 bits and float16 (FORMS=WORD, MAX_OPS=N as above; also
#             act-order, AWQ's zero points, bfloat16): recorded, named, run by provider torch and cpu,
#             with a fault in the operator. It needs vLLM's library of kernels for mixtures
#   ops-direct  moe_wna16_gemm, which vLLM takes for no model on Hopper: called by a loop in Python with
#             vLLM's own code around it (direct_experts.py), without and with zero points; recorded, named,
#             run by provider torch and cpu, with a row of zeros, which must be caught. It needs vLLM's
#             library of kernels for mixtures; three minutes
#   fp8       products of FP8 by cutlass_scaled_mm: quantised at load, static checkpoints with a scale for
#             the tensor, for each channel, for blocks of 128; run by provider torch and by cpu, with a
#             fault in the operator (FORMS and MAX_OPS as above)
#   deep-gemm FP8 in blocks of 128 at vLLM's defaults (DeepGEMM): named as not recorded, with its share of
#             the GPU's time. It needs third_party/deep_gemm of vLLM's wheel, and nvcc
#   int8      the same of INT8 W8A8 (compressed-tensors), with and without zero points
#   forms     Marlin as other models use it: biases, act-order, bfloat16, AWQ's zero points, 8 bits;
#             exllama with act-order. It runs two or three forms at a time: run it again for the
#             rest (FORMS=WORD: only the forms whose name contains WORD)
#   private   operators of one's own (own_operators.cu, built here with nvcc), called by a loop in Python
#             without vLLM: recorded by record --ops, replayed by replay --ops and by cpu; a fault in
#             the extension, which must be caught (after torch: its ops by the own operator too)
#   launches  what vLLM passes to its GEMM kernels, parameter by parameter: the golden launches of
#             tests/unit/kernels/adapters/test_gpu_launches.c (needs CUPTI's headers)
#   tensor    after model, with two GPUs: tensor-parallel 2; the ops of both ranks are named and
#             replayed
#   cost      after model: the cost of the tap, its modes switched inside one server (bench/tap);
#             six minutes at a time until all ROUNDS (120) are there
#   twin-cost the same at vLLM's defaults, with twins of its CUDA graphs: a small model, and the sizes of
#             one of 8B (LAYERS=8; BENCH_SECONDS=240 for each; MODES as for bench/tap/run.sh)
#   start     what the sleeping tap adds to a server's start, to its time between tokens, and takes of the GPU: an 8B
#             model's sizes (LAYERS=8), PAIRS=3 starts without and with it (EAGER=: at vLLM's defaults)
# Environment: PYTHON, an interpreter that can import vllm (default python3); TD_GPU_PORT (default
# 18600)
# SPDX-License-Identifier: Apache-2.0
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib} PYTHON=${PYTHON:-python3}
WORK=${TD_GPU_WORK:-/tmp/tapedeck-gpu} PORT=${TD_GPU_PORT:-18600}
mkdir -p "$WORK" || exit 1
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_HOST_IP=127.0.0.1 VLLM_USE_FLASHINFER_SAMPLER=0 LC_ALL=C.UTF-8
failed=0
RECORD=${RECORD:-} SUITE=${SUITE:-quick} TOKENS=${TOKENS:-32} # RECORD: more options of record
for part in "$HERE"/vllm_gpu/*.sh; do . "$part"; done

[ $# -gt 0 ] || { sed -n '2,/^# SPDX/{/SPDX/!s/^# \{0,1\}//p}' "$0"; exit 2; }
for stage; do
    declare -F "stage_$stage" >/dev/null || { echo "vllm_gpu: no stage $stage" >&2; exit 2; }
    start=$SECONDS
    say "== $stage"
    "stage_$stage"
    say "== $stage: $((SECONDS - start)) s"
done
exit $failed
