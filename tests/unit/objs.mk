# the demo server's parts call libtdkernels.so's functions; here they are linked in
TESTS_server := tokenizer sampler request reply llama
$(foreach t,$(TESTS_server),$(eval OBJS_test_server_$(t) := demo/server)$(eval LINK_test_server_$(t) := $(LIBTD) -lmicrohttpd))
$(foreach t,$(TESTS_server),$(call unit,server_$(t))): $(call obj,kernels/gptq_gemm/gptq_gemm_export.c)

# parts of differ, under the names of their tests
$(foreach t,align tops tokens rescore numerics speed speed_starts blame matrix_place policy stats judged_ops lanes lane_collapse damage same_tokens smoke smoke_ids report_next bias slice_tests repeats op_variety_notes report_which k_parts,$(eval OBJS_test_$(t) := differ))

OBJS_test_tap_client := recorder recorder/tap_client
OBJS_test_read_rings := recorder recorder/tap_client
OBJS_test_seen_outputs := recorder recorder/tap_client
OBJS_test_kernel_counts := recorder recorder/tap_client
OBJS_test_tap_ggml := recorder recorder/tap_client
# both ends in one process
OBJS_test_tap_call := recorder recorder/tap_client
OBJS_test_tap_arm := recorder recorder/tap_client
OBJS_test_tap_server := recorder recorder/tap_client
OBJS_test_tap_vllm := recorder recorder/tap_client
OBJS_test_tap_torch := recorder recorder/tap_client
OBJS_test_tap_torch_scaled := recorder recorder/tap_client
OBJS_test_tap_torch_beside := recorder recorder/tap_client
OBJS_test_tap_cache_rows := recorder recorder/tap_client
OBJS_test_tap_own_rows := recorder recorder/tap_client
OBJS_test_tap_torch_arms := recorder recorder/tap_client
OBJS_test_tap_torch_captured := recorder recorder/tap_client
OBJS_test_tap_cuda := recorder recorder/tap_client
OBJS_test_tap_cuda_blas_lt := recorder recorder/tap_client
OBJS_test_tap_cuda_twins := recorder recorder/tap_client
OBJS_test_tap_cuda_twin_bound := recorder recorder/tap_client
OBJS_test_tap_cuda_twin_rotation := recorder recorder/tap_client
OBJS_test_tap_cuda_twin_hard := recorder recorder/tap_client
OBJS_test_tap_cuda_twin_forms := recorder recorder/tap_client
OBJS_test_tap_cuda_twin_awq := recorder recorder/tap_client
OBJS_test_tap_cuda_twin_calls := recorder recorder/tap_client
OBJS_test_tap_cuda_twin_flight := recorder recorder/tap_client
OBJS_test_tap_cuda_hard := recorder recorder/tap_client
OBJS_test_tap_cuda_graphs := recorder recorder/tap_client
OBJS_test_tap_hip := recorder recorder/tap_client
OBJS_test_tap_hip_torch := recorder recorder/tap_client
OBJS_test_tap_cuda_flight := recorder recorder/tap_client
OBJS_test_tap_cuda_gather := recorder recorder/tap_client
OBJS_test_tap_cuda_rest := recorder recorder/tap_client
OBJS_test_tap_cuda_times := recorder recorder/tap_client
OBJS_test_layer_filter := recorder recorder/tap_client
OBJS_test_gpu_shares := recorder recorder/tap_client
TAP_TESTS := call arm server vllm torch torch_scaled torch_beside cache_rows torch_arms torch_captured cuda cuda_blas_lt cuda_hard cuda_graphs cuda_flight cuda_gather cuda_rest cuda_times cuda_twins cuda_twin_bound cuda_twin_rotation cuda_twin_flight cuda_twin_hard cuda_twin_forms cuda_twin_awq cuda_twin_calls hip own_rows hip_torch
$(foreach t,$(TAP_TESTS),$(call unit,tap_$(t))): $(call obj,$(TAP_SRCS))
# what the tap takes of kernels/gpu, from where all others have it
$(foreach t,$(TAP_TESTS),$(eval LINK_test_tap_$(t) := $(LIBTD)))
OBJS_fuzz_weight_ref := replayer
OBJS_fuzz_checkpoint := recorder recorder/tap_client replayer
# the tap's reader of schemas
$(O)/tests/fuzz/fuzz_torch_schema: $(call obj,recorder/tap/torch/torch_schema.c)
$(call unit,tap_loaded_symbol): $(call obj,recorder/tap/core/tap_loaded_symbol.c)
# the tap's environment
$(call unit,tap_environ): $(call obj,recorder/tap/core/tap_environ.c)
# its parser of code objects
$(O)/tests/fuzz/fuzz_tap_code: $(call obj,$(TAP_SRCS) $(TAP_MORE))
OBJS_test_identify := recorder recorder/tap_client
OBJS_test_recording_summary := recorder recorder/tap_client
OBJS_test_prompt_names := recorder recorder/tap_client
OBJS_test_captured_keys := recorder recorder/tap_client
OBJS_test_passive_ledger := recorder recorder/tap_client
OBJS_test_identify_vllm := recorder recorder/tap_client
OBJS_test_identify_gpu := recorder recorder/tap_client replayer
OBJS_test_identify_moe := recorder recorder/tap_client replayer
OBJS_test_step_rows := recorder recorder/tap_client
$(foreach t,along_k halves_refused judge judge_place judge_row judge_runs run_images judge_slices bias_after cut_sums build_detect child_output op_compare op_digest op_judge op_judge_item op_list op_pace op_window reference_batch beside handover op_load op_plan op_variety ref_cache weight_ref request_plan,$(eval OBJS_test_$(t) := replayer))
OBJS_test_server_ids := recorder recorder/tap_client
$(foreach t,guard child_protocol,$(eval OBJS_test_$(t) := replayer replayer/child))

# small kernels of its own
$(call unit,simt): $(O)/tests/unit/kernels/simt/simt_kernels.cu.o

# the look-alike of libcuda.so.1, linked as a program links the driver
$(call unit,fake_cuda): $(O)/tests/helpers/lib_fake_cuda.so
OBJS_test_accept := gate
OBJS_test_places := gate
OBJS_test_biases := gate
# simulated outputs are summed as the replayer sums them
$(call unit,bias) $(call unit,slice_tests): $(call obj,replayer/judge_slices.c)
