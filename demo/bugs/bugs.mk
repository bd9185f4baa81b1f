# bugs.mk - builds of libtdkernels.so with one planted bug each: lib/bugs/<name>/libtdkernels.so from demo/bugs/<name>.h.
# SPDX-License-Identifier: Apache-2.0
#
# The kernel's own sources are compiled with the bug's header in front; only the files that hold steps differ.
BUGS     := $(patsubst demo/bugs/%.h,%,$(wildcard demo/bugs/*.h))
BUG_LIBS := $(BUGS:%=$(LIB)/bugs/%/libtdkernels.so)
BUG_SRCS := $(filter %_c.c %_avx2.c %_export.c,$(TDK_SRCS))

.PHONY: bugs
bugs: $(BUG_LIBS) ## the kernels with planted bugs, into lib/bugs/ (demo/bugs/README.md)

define bug
$(O)/demo/bugs/$(1)/%.o: kernels/gptq_gemm/%.c demo/bugs/$(1).h Makefile demo/bugs/bugs.mk
	@mkdir -p $$(@D)
	$$(call say,BUG,$(1) $$<)
	$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(TD_CFLAGS) $(if $(SAN),,-g0) $$(call ISA,$$<) -include demo/bugs/$(1).h -DTD_BUILD_NOTE='", $(1)"' -MMD -MP -c $$< -o $$@

$(LIB)/bugs/$(1)/libtdkernels.so: $(patsubst kernels/gptq_gemm/%.c,$(O)/demo/bugs/$(1)/%.o,$(BUG_SRCS)) $(call obj,$(filter-out $(BUG_SRCS),$(TDK_SRCS)))
	@mkdir -p $$(@D)
	$$(call say,SO,$$@)
	$(Q)$$(CC) -shared $$(TD_LDFLAGS) $$^ -o $$@ -lm
endef
$(foreach b,$(BUGS),$(eval $(call bug,$(b))))

# bench/kernels/run.sh asks for it
$(O)/bench/kernels/kernels: $(O)/bench/kernels/kernels.o $(O)/libtapedeck.a
	$(call say,LD,$@)
	$(Q)$(CC) $(TD_LDFLAGS) $^ -o $@ $(LDLIBS)
