# the demo server's parts call libtdkernels.so's functions; here they are linked in
TESTS_server := tokenizer sampler request reply llama
$(foreach t,$(TESTS_server),$(eval OBJS_test_server_$(t) := demo/server)$(eval LINK_test_server_$(t) := $(LIBTD) -lmicrohttpd))
$(TESTS_server:%=$(O)/tests/unit/test_server_%): $(call obj,kernels/gptq_gemm/gptq_gemm_export.c)

# parts of differ, under the names of their tests
$(foreach t,align tokens rescore numerics speed blame policy stats,$(eval OBJS_test_$(t) := differ))

OBJS_test_tap_link := recorder
OBJS_test_tap_pump := recorder
OBJS_test_tap_ggml := recorder
# both ends in one process
OBJS_test_tap_take := recorder
OBJS_test_tap_arm := recorder
OBJS_test_tap_vllm := recorder
OBJS_test_tap_cuda := recorder
OBJS_test_tap_cuda_blas_lt := recorder
OBJS_test_tap_cuda_hard := recorder
OBJS_test_tap_cuda_graphs := recorder
OBJS_test_tap_hip := recorder
OBJS_test_tap_cuda_flight := recorder
OBJS_test_tap_cuda_gather := recorder
OBJS_test_tap_cuda_rest := recorder
OBJS_test_layer_filter := recorder
TAP_TESTS := take arm vllm cuda cuda_blas_lt cuda_hard cuda_graphs cuda_flight cuda_gather cuda_rest hip
$(TAP_TESTS:%=$(O)/tests/unit/test_tap_%): $(call obj,$(TAP_SRCS))
# what the tap takes of kernels/gpu, from where all others have it
$(foreach t,$(TAP_TESTS),$(eval LINK_test_tap_$(t) := $(LIBTD)))
OBJS_fuzz_opref := replayer
OBJS_fuzz_checkpoint := recorder replayer
# its parser of code objects
$(O)/tests/fuzz/fuzz_tap_code: $(call obj,$(TAP_SRCS) $(TAP_MORE))
OBJS_test_settle := recorder
OBJS_test_kernel_names := recorder
OBJS_test_figures := recorder
OBJS_test_settle_vllm := recorder
OBJS_test_settle_gpu := recorder replayer
OBJS_test_rows := recorder
$(foreach t,judge guard child_protocol build opcompare oplist opload opref reqplan,$(eval OBJS_test_$(t) := replayer))

# small kernels of its own
$(O)/tests/unit/test_simt: $(O)/tests/unit/simt_kernels.cu.o

# the look-alike of libcuda.so.1, linked as a program links the driver
$(O)/tests/unit/test_fake_cuda: $(O)/tests/helpers/lib_fake_cuda.so
