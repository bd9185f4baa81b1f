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
say      = $(if $(filter 1,$(V)),,@printf '  %-5s %s\n' '$(1)' '$(2)')

PKGS     := libcurl libzstd libcjson libxxhash
CPPFLAGS += -I. -D_GNU_SOURCE -DTD_VERSION='"$(VERSION)"'
CFLAGS   ?= -O2 -g
WARN     := -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wvla
TD_CFLAGS := -std=c17 -fPIC -pthread -ffp-contract=off -fno-strict-aliasing $(WARN) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
TD_LDFLAGS := -pthread $(if $(SAN),-fsanitize=$(SAN))
LDLIBS   := -lcurl -lzstd -lcjson -lxxhash -lm -ldl

# ---- what is built from what: a folder is a library or a program; adding a file to a folder is enough --------------
LIB_DIRS  := common format wire model
PROGRAMS  := record replay differ gate fixture demo-server
SRC_record      := $(wildcard recorder/*.c)
SRC_replay      := $(wildcard replayer/*.c)
SRC_differ      := $(wildcard differ/*.c)
SRC_gate        := $(wildcard gate/*.c)
SRC_fixture     := $(wildcard fixtures/*.c)
SRC_demo-server := $(wildcard demo/server/*.c)
HAVE_PROGRAMS := $(foreach p,$(PROGRAMS),$(if $(SRC_$(p)),$(p)))

obj = $(patsubst %.c,$(O)/%.o,$(1))
LIB_SRCS  := $(foreach d,$(LIB_DIRS),$(wildcard $(d)/*.c)) $(wildcard kernels/*.c) $(wildcard kernels/*/*.c)
LIBTD     := $(O)/libtapedeck.a
# libtdkernels.so: the part of kernels/ that a server links; TDK_* may be replaced by a planted bug (demo/bugs)
TDK_SRCS  := $(wildcard kernels/gptq_gemm/*.c)
TAP_SRCS  := $(wildcard recorder/tap/*.c)
HAVE_LIBS := $(if $(TDK_SRCS),$(LIB)/libtdkernels.so) $(if $(TAP_SRCS),$(LIB)/libtapedeck-tap.so)

.DEFAULT_GOAL := all
.PHONY: help deps all check demo bench install clean
.SECONDARY:

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  options: CC=gcc|clang SAN=address,undefined V=1 O=dir CUDA=auto|0|1 HIP=auto|0|1 PCAP=auto|0|1 PREFIX=/usr/local'

all: $(addprefix $(BIN)/,$(HAVE_PROGRAMS)) $(HAVE_LIBS) ## build every program into bin/ and every library into lib/

clean: ## remove what was built
	rm -rf build bin lib

# ---- compile -------------------------------------------------------------------------------------------------------
# *_avx2.c and *_avx512.c are compiled for that instruction set and called only after a test at run time.
ISA = $(if $(findstring _avx2,$(1)),-mavx2 -mfma -mf16c)$(if $(findstring _avx512,$(1)),-mavx512f -mavx512bw -mavx512vl -mavx2 -mfma -mf16c)

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
LINK_demo-server := -L$(LIB) -ltdkernels -Wl,-rpath,'$$$$ORIGIN/../lib' -lmicrohttpd
$(foreach p,$(HAVE_PROGRAMS),$(eval $(call program,$(p))))

$(LIB)/libtdkernels.so: $(call obj,$(TDK_SRCS))
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -shared $(TD_LDFLAGS) $^ -o $@ -lm

$(LIB)/libtapedeck-tap.so: $(call obj,$(TAP_SRCS))
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(CC) -shared $(TD_LDFLAGS) $^ -o $@ -ldl

# ---- tests ---------------------------------------------------------------------------------------------------------
UNIT := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
$(O)/tests/unit/test_%: $(O)/tests/unit/test_%.o $(LIBTD)
	$(call say,LD,$@)
	$(Q)$(CC) $(TD_LDFLAGS) $^ -o $@ $(LINK_test_$*) -lcmocka $(LDLIBS)

-include $(shell find $(O) -name '*.d' 2>/dev/null)
