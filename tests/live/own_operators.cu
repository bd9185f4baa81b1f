// own_operators.cu - an engineer's own extension for torch: two operators that nobody else knows, by torch's stable ABI.
// tests/live/own_operators.ops describes them. -DFAULT: w4a16_gemm takes a wrong zero point for the last column.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <optional>

using torch::stable::Tensor;

// y[m, n] = x[m, k] W; W as in a GPTQ checkpoint, four bits, rounded to float16. A thread has one element of y.
__global__ void w4a16_kernel(const __half *x, const int *w, const __half *s, const int *z, const __half *bias, __half *y, int m, int n, int k,
                             int group)
{
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    float sum = 0;

    if (col >= n || row >= m)
        return;
    for (int i = 0; i < k; i++) {
        int zero = (z[i / group * (n / 8) + col / 8] >> 4 * (col % 8) & 15) + 1;
#ifdef FAULT
        zero += col == n - 1;
#endif
        const int q = (w[i / 8 * n + col] >> 4 * (i % 8) & 15) - zero;

        sum += __half2float(x[row * k + i]) * __half2float(__float2half_rn(q * __half2float(s[i / group * n + col])));
    }
    y[row * n + col] = __float2half_rn(sum + (bias ? __half2float(bias[col]) : 0));
}

// y[m, n] = x[m, k] weight[k, n]
__global__ void linear_kernel(const __half *x, const __half *weight, __half *y, int m, int n, int k)
{
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    float sum = 0;

    if (col >= n || row >= m)
        return;
    for (int i = 0; i < k; i++)
        sum += __half2float(x[row * k + i]) * __half2float(weight[i * n + col]);
    y[row * n + col] = __float2half_rn(sum);
}

static cudaStream_t stream_of(const Tensor &t)
{
    void *stream = nullptr;

    STD_TORCH_CHECK(!aoti_torch_get_current_cuda_stream(t.get_device_index(), &stream), "no stream");
    return static_cast<cudaStream_t>(stream);
}

template <typename T> static T *memory_of(const Tensor &t)
{
    return static_cast<T *>(t.data_ptr());
}

// It writes C into y.
void w4a16_gemm(Tensor x, Tensor w, Tensor s, Tensor z, int64_t group, bool fast, double eps, std::optional<Tensor> b, Tensor y)
{
    const int m = (int)x.size(0), k = (int)x.size(1), n = (int)y.size(1);

    STD_TORCH_CHECK(fast && eps > 0, "only the fast way is there");
    w4a16_kernel<<<dim3((n + 127) / 128, m), 128, 0, stream_of(x)>>>(memory_of<__half>(x), memory_of<int>(w), memory_of<__half>(s), memory_of<int>(z),
                                                                    b ? memory_of<__half>(*b) : nullptr, memory_of<__half>(y), m, n, k, (int)group);
    STD_TORCH_CHECK(cudaGetLastError() == cudaSuccess, "the launch failed");
}

// It returns C.
Tensor linear(Tensor x, Tensor weight)
{
    const int m = (int)x.size(0), k = (int)x.size(1), n = (int)weight.size(1);
    Tensor y = torch::stable::new_empty(x, {m, n});

    linear_kernel<<<dim3((n + 127) / 128, m), 128, 0, stream_of(x)>>>(memory_of<__half>(x), memory_of<__half>(weight), memory_of<__half>(y), m, n, k);
    STD_TORCH_CHECK(cudaGetLastError() == cudaSuccess, "the launch failed");
    return y;
}

STABLE_TORCH_LIBRARY(tapedeck_own, m)
{
    m.def("w4a16_gemm(Tensor x, Tensor w, Tensor s, Tensor z, int group, bool fast, float eps, Tensor? b, Tensor! y) -> ()");
    m.def("linear(Tensor x, Tensor weight) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(tapedeck_own, CUDA, m)
{
    m.impl("w4a16_gemm", TORCH_BOX(&w4a16_gemm));
    m.impl("linear", TORCH_BOX(&linear));
}
