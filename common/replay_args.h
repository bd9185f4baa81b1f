/* replay_args.h - the options that say how a recording is replayed: those of `replay`, which `gate`
 * hands on to it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A row of a table of options each (args.h). The type is that of the program: replay reads numbers,
 * gate hands words on. */
#ifndef TD_COMMON_REPLAY_ARGS_H
#define TD_COMMON_REPLAY_ARGS_H

#include "common/args.h"

#define TD_REPLAY_API(type, value)                                                                 \
    {"api", 0, type, value, "KIND",                                                                \
     "dialect of the server: vllm, openai, llamacpp, sglang (default: detected)", 0, 0}
#define TD_REPLAY_SERVED_AS(type, value)                                                           \
    {"served-as", 0, type, value, "NAME",                                                          \
     "the server's name for the recorded model, when it is another one", 0, 0}
#define TD_REPLAY_WAIT(type, value)                                                                \
    {"wait", 'w', type, value, "[=SECONDS]",                                                       \
     "wait for a server that is not up yet, or still loads (default: --timeout)", 1, 86400}
#define TD_REPLAY_TIMING(type, value)                                                              \
    {"timing", 0, type, value, "HOW",                                                              \
     "when requests are sent: asap (no more in flight than recorded), recorded, xN (N times "       \
     "faster) (default: as recorded those that were sent at a rate or at times, the others asap)", 0, 0}
#define TD_REPLAY_REPEAT(type, value)                                                              \
    {"repeat", 'k', type, value, "K", "repeats of each request (default: as recorded)", 1, 10000}
#define TD_REPLAY_HEADER(type, value)                                                              \
    {"header", 'H', type, value, "NAME:VALUE",                                                     \
     "send this header with every request; its value is overwritten in what is written (may be "   \
     "repeated; @FILE: a header a line, which nobody sees in the list of processes)",              \
     0, 0}
#define TD_REPLAY_MAX_BODY(type, value)                                                            \
    {"max-body", 0, type, value, "MIB",                                                            \
     "longest answer that is read; a longer one is cut off and counts as failed (default 256; "    \
     "what is not streamed: 64 at most)",                                                          \
     1, 65536}
#define TD_REPLAY_SHOW_HEADER(type, value)                                                         \
    {"show-header", 0, type, value, "NAME",                                                        \
     "of a header given by -H: it is no secret, keep its value (may be repeated)", 0, 0}
#define TD_REPLAY_REDACT_HEADER(type, value)                                                       \
    {"redact-header", 0, type, value, "NAME",                                                      \
     "also overwrite the value of this header, of answers too (may be repeated)", 0, 0}
#define TD_REPLAY_ALLOW_PATH(type, value)                                                          \
    {"allow-path", 0, type, value, "PATH",                                                         \
     "also send recorded requests to this path of the server (may be repeated; default: those "    \
     "that generate text)",                                                                        \
     0, 0}
#define TD_REPLAY_BUILD(type, value)                                                               \
    {"build", 0, type, value, "PATH",                                                              \
     "run the recorded ops with this build: a library, a folder of ggml's, a venv with vLLM, a "   \
     ".fatbin, .cubin or .hsaco",                                                                  \
     0, 0}
#define TD_REPLAY_BASELINE_BUILD(type, value)                                                      \
    {"baseline-build", 0, type, value, "PATH",                                                     \
     "also run them with this build, and compare errors and speed side by side", 0, 0}
#define TD_REPLAY_AS(type, value)                                                                  \
    {"as", 0, type, value, "OPERATOR",                                                             \
     "of a venv with vLLM for GPUs: run this operator, such as marlin_gemm, not the recorded one", \
     0, 0}
#define TD_REPLAY_BUILD_ENV(type, value)                                                           \
    {"build-env", 0, type, value, "N=V", "set this variable for the build (may be repeated)", 0, 0}
#define TD_REPLAY_BASELINE_ENV(type, value)                                                        \
    {"baseline-env", 0, type, value, "N=V",                                                        \
     "set this variable for the baseline build (may be repeated)", 0, 0}
#define TD_REPLAY_OPS(type, value)                                                                 \
    {"ops", 0, type, value, "FILE",                                                                \
     "operators of your own: what they compute, and what to load (docs/own-operators.md)", 0, 0}
#define TD_REPLAY_CHECKPOINT(type, value)                                                          \
    {"checkpoint", 0, type, value, "PATH",                                                         \
     "where the model's checkpoint is now: a folder or a .gguf file", 0, 0}
#define TD_REPLAY_ONLY(type, value)                                                                \
    {"only", 0, type, value, "PATTERN",                                                            \
     "replay only ops whose layer or kernel matches (may be repeated)", 0, 0}
#define TD_REPLAY_OP_REPEAT(type, value, most)                                                     \
    {"op-repeat", 0, type, value, "N", "runs of each op, to find results that vary (default 3)",   \
     1, most}
/* So many runs of one op show by themselves whether its kernel repeats. */
#define TD_MORE_RUNS "--op-repeat 20"
#define TD_REPLAY_MAX_OPS(type, value)                                                             \
    {"max-ops", 0, type, value, "N",                                                               \
     "replay N ops, a fair sample, but one at least of each kernel, shape and M class (default "   \
     "20000; 0: all)",                                                                             \
     0, 1e12}
#define TD_REPLAY_TIME(value)                                                                      \
    {"time", 0, TD_ARG_STR, value, "TIME",                                                         \
     "for the ops of a fixture: 90s, 15m, 2h, all; those that fit are a fair sample, with one at "  \
     "least of each kernel, shape and M class (default: all; {gate}: 120s)",                       \
     0, 0}
#define TD_REPLAY_PLAN(value)                                                                      \
    {"plan", 0, TD_ARG_STR, value, "FILE",                                                         \
     "the ops that an earlier replay planned: that replay, or a report of {gate} --json", 0, 0}
#define TD_REPLAY_REFERENCE(type, value)                                                           \
    {"reference", 0, type, value, "WHERE",                                                         \
     "where the right answers are computed: cpu, gpu, auto (default: a GPU if there is one)", 0, 0}
#define TD_REPLAY_CACHE(value)                                                                     \
    {"cache", 0, TD_ARG_STR, value, "DIR|off",                                                     \
     "where references are kept for the next run (default: tapedeck/references in the folder for "  \
     "caches, $XDG_CACHE_HOME or ~/.cache)",                                                        \
     0, 0}
#define TD_REPLAY_CACHE_SIZE(value)                                                                \
    {"cache-size", 0, TD_ARG_STR, value, "SIZE",                                                   \
     "what they may take; what was used longest ago goes (default 4G)", 0, 0}
#define TD_REPLAY_DEADLINE(type, value)                                                            \
    {"deadline", 0, type, value, "S",                                                              \
     "longest run of an op before it counts as hung (default 20)", 0.05, 86400}

#endif
