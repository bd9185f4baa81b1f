// check.cc - what the tap declares of the HIP and HSA runtimes beside their headers, argument by argument: compiling is the test.
// SPDX-License-Identifier: Apache-2.0
#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__
#include <hip/hip_runtime_api.h>
#include <hsa/hsa.h>

#include <tuple>
#include <type_traits>

// what hip_ext.h has of hipcc's own headers
template <int, class T> void pArgs(const T &, void *);
template <class F, class T> T validateArgsCountType(F, T);
#include <hip/hip_ext.h>

#include "kernels/abi/hip_abi.h"
#include "kernels/abi/hsa_abi.h"

// Passed alike: as large, and both a struct, or both not; a handle is a pointer or a 64-bit number.
template <class A, class B>
constexpr bool alike()
{
    return sizeof(A) == sizeof(B) && alignof(A) == alignof(B) && std::is_class<A>::value == std::is_class<B>::value &&
           std::is_floating_point<A>::value == std::is_floating_point<B>::value;
}

template <class R, class... A, class Q, class... B>
constexpr bool same(R (*)(A...), Q (*)(B...))
{
    if constexpr (sizeof...(A) != sizeof...(B))
        return false;
    else
        return alike<R, Q>() && (alike<A, B>() && ...);
}

#define SAME(name, theirs, arguments) static_assert(same((decltype(&theirs))nullptr, (int(*) arguments)nullptr), name);
#define FUNCTION(name, member, arguments) SAME(#name, name, arguments)
TD_HIP_TAP_NEEDED(FUNCTION)
TD_HIP_TAP_OPTIONAL(FUNCTION)
#define TEXT(name, member, arguments) static_assert(same((decltype(&name))nullptr, (const char *(*) arguments)nullptr), #name);
TD_HIP_TAP_TEXTS(TEXT)
#define BEFORE(name, arguments) SAME(#name, name, arguments)
BEFORE(hipLaunchKernel, TD_HIP_STUB_ARGUMENTS) BEFORE(hipExtLaunchKernel, TD_HIP_EXT_STUB_ARGUMENTS)
BEFORE(hipModuleLaunchKernel, TD_HIP_MODULE_ARGUMENTS) BEFORE(hipGraphLaunch, (void *, void *)) BEFORE(hipDeviceReset, (void)) BEFORE(hipStreamDestroy, (void *))
// one of an overloaded name: there is one that takes these
using together = decltype(static_cast<hipError_t (*)(const void *, dim3, dim3, void **, unsigned, hipStream_t)>(&hipLaunchCooperativeKernel));
static_assert(same((together)nullptr, (int(*) TD_HIP_TOGETHER_ARGUMENTS)nullptr), "hipLaunchCooperativeKernel");
BEFORE(hipDevicePrimaryCtxReset, (int)) BEFORE(hsa_code_object_reader_create_from_memory, TD_HSA_READER_ARGUMENTS)

// C++ here: their names are mangled, so the compiler says whether we have those right.
#define MANGLED(theirs, ours, arguments) \
    SAME(#theirs, theirs, arguments) \
    extern "C" int ours arguments; \
    void *of_##theirs(int which) { return which ? (void *)ours : (void *)theirs; }
MANGLED(hipExtModuleLaunchKernel, TD_HIP_EXT_MANGLED, TD_HIP_EXT_ARGUMENTS)
MANGLED(hipHccModuleLaunchKernel, TD_HIP_HCC_MANGLED, TD_HIP_HCC_ARGUMENTS)

#define NUMBER(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs);
NUMBER(TD_HIP_ERROR_UNKNOWN, hipErrorUnknown) NUMBER(TD_HIP_COPY_ON_DEVICE, hipMemcpyDeviceToDevice) NUMBER(TD_HSA_ERROR, HSA_STATUS_ERROR)
NUMBER(TD_CUDA_MEMHOSTREGISTER_PORTABLE, hipHostRegisterPortable) NUMBER(TD_CUDA_MEMHOSTREGISTER_DEVICEMAP, hipHostRegisterMapped)
NUMBER(TD_CUDA_STREAM_NON_BLOCKING, hipStreamNonBlocking) NUMBER(TD_CUDA_EVENT_DISABLE_TIMING, hipEventDisableTiming)
NUMBER(TD_CUDA_CAPTURE_NONE, hipStreamCaptureStatusNone) NUMBER(TD_CUDA_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed)
static_assert(alike<hsa_code_object_reader_t, uint64_t>() || sizeof(hsa_code_object_reader_t) == 8, "hsa_code_object_reader_t");
static_assert(alike<dim3, td_hip_dim>() && std::is_trivially_copyable<dim3>::value, "dim3");

int main()
{
    const struct { const void *theirs; uintptr_t ours; } words[] = {{HIP_LAUNCH_PARAM_BUFFER_POINTER, TD_HIP_PARAM_BUFFER_POINTER},
        {HIP_LAUNCH_PARAM_BUFFER_SIZE, TD_HIP_PARAM_BUFFER_SIZE}, {HIP_LAUNCH_PARAM_END, TD_HIP_PARAM_END}, {hipStreamPerThread, (uintptr_t)TD_HIP_STREAM_PER_THREAD}};

    for (auto &w : words)
        if ((uintptr_t)w.theirs != w.ours)
            return 1;
    return of_hipExtModuleLaunchKernel(0) != of_hipExtModuleLaunchKernel(1) || of_hipHccModuleLaunchKernel(0) != of_hipHccModuleLaunchKernel(1);
}
