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

ifneq ($(SERVER_CODE),)
$(LIB)/bugs/$(1)/libtdkernels.so: $(SERVER_CODE)/bugs/$(1)/libtdkernels.so
	@mkdir -p $$(@D)
	$$(call say,COPY,$$@)
	$(Q)cp $$< $$@
else
$(LIB)/bugs/$(1)/libtdkernels.so: $(patsubst kernels/gptq_gemm/%.c,$(O)/demo/bugs/$(1)/%.o,$(BUG_SRCS)) $(call obj,$(filter-out $(BUG_SRCS),$(TDK_SRCS)))
	@mkdir -p $$(@D)
	$$(call say,SO,$$@)
	$(Q)$$(CC) -shared $$(TD_LDFLAGS) $$^ -o $$@ -lm
endif
endef
$(foreach b,$(BUGS),$(eval $(call bug,$(b))))

# bench/kernels/run.sh asks for it
$(O)/bench/kernels/kernels: $(O)/bench/kernels/kernels.o $(O)/libtapedeck.a
	$(call say,LD,$@)
	$(Q)$(CC) $(TD_LDFLAGS) $^ -o $@ $(LDLIBS)

# The GPU kernels with a planted bug each: lib/bugs-gpu/<name>.fatbin and <name>.hsaco from demo/bugs/gpu/<name>.h, and
# <name>.simt.so for the emulator.
GPU_BUGS      := $(patsubst demo/bugs/gpu/%.h,%,$(wildcard demo/bugs/gpu/*.h))
GPU_BUG_LIBS  := $(GPU_BUGS:%=$(LIB)/bugs-gpu/%.simt.so)
GPU_BUG_FATBINS := $(if $(HAVE_NVCC),$(GPU_BUGS:%=$(LIB)/bugs-gpu/%.fatbin))
GPU_BUG_HSACOS  := $(if $(HAVE_HIPCC),$(GPU_BUGS:%=$(LIB)/bugs-gpu/%.hsaco))

bugs: $(GPU_BUG_LIBS) $(GPU_BUG_FATBINS) $(GPU_BUG_HSACOS)

$(GPU_BUGS:%=$(LIB)/bugs-gpu/%.fatbin): $(LIB)/bugs-gpu/%.fatbin: $(O)/td_kernels.cu demo/bugs/gpu/%.h
	@mkdir -p $(@D) $(O)/demo/bugs/gpu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(NVCC_FLAGS) -include demo/bugs/gpu/$*.h -MMD -MF $(O)/demo/bugs/gpu/$*.fatbin.d $< -o $@

$(GPU_BUGS:%=$(LIB)/bugs-gpu/%.hsaco): $(LIB)/bugs-gpu/%.hsaco: $(O)/td_kernels.cu demo/bugs/gpu/%.h $(wildcard kernels/simt/*.h kernels/gptq_gemm/*_cu*.h)
	@mkdir -p $(@D)
	$(call say,HIPCC,$@)
	$(Q)$(HIPCC) $(HIPCC_FLAGS) -include demo/bugs/gpu/$*.h $< -o $@

define gpu_bug
$(O)/demo/bugs/gpu/$(1)/%.cu.o: kernels/%.cu demo/bugs/gpu/$(1).h Makefile demo/bugs/bugs.mk
	@mkdir -p $$(@D)
	$$(call say,BUG,$(1) $$<)
	$(Q)$$(CXX) $$(CPPFLAGS) $$(CFLAGS) $$(SIMT_CXXFLAGS) $(if $(SAN),,-g0) -DTD_SIMT -include demo/bugs/gpu/$(1).h -MMD -MP -x c++ -c $$< -o $$@

$(LIB)/bugs-gpu/$(1).simt.so: $(patsubst kernels/%.cu,$(O)/demo/bugs/gpu/$(1)/%.cu.o,$(CU_SRCS)) $(SIMT_SO_OBJS)
	@mkdir -p $$(@D)
	$$(call say,SO,$$@)
	$(Q)$$(CC) -shared $$(TD_LDFLAGS) -Wl,-Bsymbolic $$^ -o $$@ -lm
endef
$(foreach b,$(GPU_BUGS),$(eval $(call gpu_bug,$(b))))
