/* fake_torch.h - tensors and operators of tests/helpers/lib_fake_torch.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HELPERS_FAKE_TORCH_H
#define TD_TESTS_HELPERS_FAKE_TORCH_H

#include "kernels/abi/torch_abi.h"

/* A tensor, as an AtenTensorHandle points at it. A StringHandle points at the text itself. */
struct fake_torch_tensor {
    int64_t ndim, sizes[5], strides[5];
    int32_t dtype, device;            /* 0: the CPU; 1: CUDA */
    int32_t no_storage;               /* 1: it has no memory, as a tensor that is only traced */
    void *data;
};

/* Call an operator as torch's dispatcher does: what was registered for that name and key. 0, or 1:
 * nothing is. */
typedef int32_t fake_torch_call_fn(const char *name, const char *key, td_torch_value *stack,
                                   uint64_t n_args, uint64_t n_results);
fake_torch_call_fn fake_torch_call;

extern void *fake_torch_stream;       /* what aoti_torch_get_current_cuda_stream says */
extern uint64_t fake_torch_version;   /* what aoti_torch_abi_version says */
extern int64_t fake_torch_asked_for_data; /* how often somebody asked where a tensor's data lie */
extern int32_t fake_torch_refuses;    /* 1: registrations fail */

#endif
