/* lib_fake_torch_ops.c - a library of operators, as vLLM's _C_stable_libtorch.abi3.so: it registers
 * them while it is loaded, at lib_fake_torch.so.
 * SPDX-License-Identifier: Apache-2.0
 *
 * fake_ops_run(n) calls _C::mm n times as torch's dispatcher does, and returns how many results were
 * wrong. */
#include "tests/helpers/fake_torch.h"

td_torch_init aoti_torch_library_init_fragment;
td_torch_init_impl aoti_torch_library_init_impl;
td_torch_def aoti_torch_library_def;
td_torch_impl_version torch_library_impl;
td_torch_delete aoti_torch_delete_library_object;
int64_t fake_ops_run(int64_t n);

/* Gives back its first argument's handle, one higher. */
static void mm(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    td_torch_value a = stack[0];
    uint64_t i;

    for (i = 0; i < n_args; i++)
        stack[i] = 0;
    if (n_results)
        stack[0] = a + 1;
}

__attribute__((constructor)) static void register_operators(void)
{
    td_torch_library def, cuda;

    if (aoti_torch_library_init_fragment("_C", __FILE__, __LINE__, &def) ||
        aoti_torch_library_def(def, "mm(Tensor a, Tensor? b, int n) -> Tensor") ||
        aoti_torch_library_def(def, "unused(Tensor a) -> ()") ||
        aoti_torch_library_init_impl("_C", "CUDA", __FILE__, __LINE__, &cuda) ||
        torch_library_impl(cuda, "mm", mm, 1) || torch_library_impl(cuda, "unused", mm, 1))
        __builtin_abort();
    aoti_torch_delete_library_object(def);
    aoti_torch_delete_library_object(cuda);
}

int64_t fake_ops_run(int64_t n)
{
    static uint16_t memory[24];
    struct fake_torch_tensor a = {.ndim = 2,
                                  .sizes = {3, 8},
                                  .strides = {8, 1},
                                  .dtype = TD_TORCH_F16,
                                  .device = 1,
                                  .data = memory};
    int64_t wrong = 0;

    while (n-- > 0) {
        td_torch_value stack[3] = {(uintptr_t)&a, 0, 7};

        wrong += fake_torch_call("_C::mm", "CUDA", stack, 3, 1) || stack[0] != (uintptr_t)&a + 1;
    }
    return wrong;
}
