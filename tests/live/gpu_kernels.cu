/* gpu_kernels.cu - compare our kernels on a real GPU with the same source in the emulator, bit for
 * bit, and time them. `make live-gpu-kernels` builds and runs it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: gpu_kernels simt_test.so     Exit: 0 equal, 1 different, 77 no GPU here
 *
 * It runs half arithmetic over random triples (t_half of tests/unit/kernels/simt/simt_kernels.cu),
 * then every gptq_gemm kernel on shapes with tails and act-order. Products and sums are spelled as
 * fmaf and __fadd_rn, so the emulator must give the GPU's bits. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <vector>

#include "kernels/gptq_gemm/gptq_gemm_plain.cu"
#include "kernels/simt/simt_launch.h"
#include "tests/unit/kernels/simt/simt_kernels.cu"

typedef decltype(&td_simt_launch) launch_fn;
typedef decltype(&td_simt_launch_kernel) launch_kernel_fn;

static launch_fn emulate;
static launch_kernel_fn emulate_kernel;
static const td_simt_kernel *test_kernels;

static uint64_t seed = 5;
static uint32_t random_word(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static void check(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(e));
    exit(e == cudaErrorNoDevice || e == cudaErrorInsufficientDriver ? 77 : 2);
}

/* The same bytes on the host and on the device. */
template <class T> struct both {
    std::vector<T> host;
    T *device, *at;

    both(size_t n) : host(n) { check(cudaMalloc(&device, n * sizeof(T)), "cudaMalloc"); }
    ~both() { cudaFree(device); }
    void upload(void) { check(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "copy"); at = host.data(); }
    std::vector<T> download(void) const
    {
        std::vector<T> out(host.size());

        check(cudaMemcpy(out.data(), device, out.size() * sizeof(T), cudaMemcpyDeviceToHost), "kernel");
        return out;
    }
};

static bool fails(int rc, const td_error &err)
{
    if (rc)
        printf("emulator: %s\n", err.msg);
    return rc != 0;
}

/* ---- half arithmetic ------------------------------------------------------------------------- */

static long compare_halves(int n)
{
    static const char *const what[] = {"a + b", "a - b", "a * b", "fma", "max", "min", "from float", "fma2"};
    both<uint16_t> a(n), b(n), c(n), out((size_t)n * 8);
    both<float> f(n);
    td_error err = {};
    long bad[8] = {}, sum = 0;

    for (int i = 0; i < n; i++) {
        const uint32_t u = random_word(), v = random_word(), w = random_word(), near = (v & 0x8fff) | 0x3000; /* half of them of like size */

        a.host[i] = (uint16_t)(i & 1 ? u : (u & 0x8fff) | 0x3000);
        b.host[i] = (uint16_t)(i & 1 ? u >> 16 : near);
        c.host[i] = (uint16_t)v;
        memcpy(&f.host[i], &w, 4);
    }
    a.upload(), b.upload(), c.upload(), f.upload(), out.upload();
    t_half<<<(n + 127) / 128, 128>>>((const __half *)a.device, (const __half *)b.device, (const __half *)c.device, f.device, (__half *)out.device, n);
    const std::vector<uint16_t> gpu = out.download();
    void *params[] = {&a.at, &b.at, &c.at, &f.at, &out.at, &n};
    const td_simt_kernel *k = test_kernels;

    while (strcmp(k->symbol, "t_half"))
        k++;
    if (fails(emulate_kernel(k, {(uint32_t)(n + 127) / 128, 1, 1}, {128, 1, 1}, 0, params, 1, 32, &err), err))
        return 1;
    for (size_t i = 0; i < gpu.size(); i++)
        if (gpu[i] != out.host[i] && bad[i % 8]++ < 3)
            printf("  %s of %04x %04x %04x: GPU %04x, emulator %04x\n", what[i % 8], a.host[i / 8], b.host[i / 8], c.host[i / 8], gpu[i], out.host[i]);
    for (int i = 0; i < 8; i++) {
        printf("  %-10s %d, different %ld\n", what[i], n, bad[i]);
        sum += bad[i];
    }
    return sum;
}

/* ---- gptq_gemm ------------------------------------------------------------------------------- */

typedef void gptq_kernel(const __half *, const uint32_t *, const uint32_t *, const __half *, const int32_t *, __half *, int32_t, int32_t, int32_t, int32_t, int32_t,
                         int64_t, int64_t);
static const struct { const char *symbol; gptq_kernel *kernel; int bits; bool exllama; } kernels[] = {
    {"td_gptq_gemm_4bit_f32", td_gptq_gemm_4bit_f32, 4, false},
    {"td_gptq_gemm_8bit_f32", td_gptq_gemm_8bit_f32, 8, false},
    {"td_gptq_gemm_4bit_f16", td_gptq_gemm_4bit_f16, 4, false},
    {"td_gptq_gemm_8bit_f16", td_gptq_gemm_8bit_f16, 8, false},
    {"td_gptq_gemm_exllama_4bit_f32", td_gptq_gemm_exllama_4bit_f32, 4, true},
    {"td_gptq_gemm_exllama_8bit_f32", td_gptq_gemm_exllama_8bit_f32, 8, true},
    {"td_gptq_gemm_exllama_4bit_f16", td_gptq_gemm_exllama_4bit_f16, 4, true},
    {"td_gptq_gemm_exllama_8bit_f16", td_gptq_gemm_exllama_8bit_f16, 8, true},
};

struct product {
    int m, n, k, groups, bits;
    both<uint16_t> a, scales, c;
    both<uint32_t> qweight, qzeros;
    both<int32_t> order;

    product(int m_, int n_, int k_, int group, int bits_, bool perm)
        : m(m_), n(n_), k(k_), groups(k_ / group), bits(bits_), a((size_t)m_ * k_), scales((size_t)groups * n_), c((size_t)m_ * n_),
          qweight((size_t)k_ * bits_ / 32 * n_), qzeros((size_t)groups * n_ * bits_ / 32), order(k_)
    {
        for (auto &h : a.host)
            h = (uint16_t)((random_word() & 0x83ff) | (0x2c00 + (random_word() % 6 << 10)));
        for (auto &h : scales.host)
            h = (uint16_t)(0x2000 + random_word() % 0x400);
        for (auto &w : qweight.host)
            w = random_word();
        for (auto &w : qzeros.host)
            w = random_word();
        for (int i = 0; i < k; i++)
            order.host[i] = perm ? i : (int)(random_word() % (uint32_t)groups);
        for (int i = k - 1; perm && i > 0; i--)
            std::swap(order.host[i], order.host[random_word() % (uint32_t)(i + 1)]);
        a.upload(), scales.upload(), c.upload(), qweight.upload(), qzeros.upload(), order.upload();
    }
};

static long compare_product(size_t which, int m, int n, int k, int group, bool ordered)
{
    product p(m, n, k, group, kernels[which].bits, kernels[which].exllama);
    uint32_t grid[3], block[3];
    td_gptq_cu_call call;
    td_error err = {};
    long bad = 0;

    if (!td_gptq_cu_grid(m, n, grid, block))
        return 1;
    kernels[which].kernel<<<dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2])>>>(
        (const __half *)p.a.device, p.qweight.device, p.qzeros.device, (const __half *)p.scales.device, ordered ? p.order.device : nullptr, (__half *)p.c.device, m, n,
        k, p.groups, 1, k, n);
    const std::vector<uint16_t> gpu = p.c.download();
    const td_gptq_gemm_args x = {sizeof x, m, n, k, p.bits, group, 1, 0, p.a.at, k, p.qweight.at, p.qzeros.at, p.scales.at, ordered ? p.order.at : nullptr, p.c.at, n};

    td_gptq_cu_call_of(&x, &call);
    if (fails(emulate(kernels[which].symbol, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, 0, call.param, 1, 32, &err), err))
        return 1;
    for (size_t i = 0; i < gpu.size(); i++)
        bad += gpu[i] != p.c.host[i];
    return bad;
}

static long compare_products(void)
{
    static const struct { int m, n, k, group; } shapes[] = {{1, 8, 8, 8}, {1, 136, 256, 64}, {7, 72, 640, 128}, {9, 40, 200, 200}, {17, 264, 384, 32}, {50, 128, 128, 128}};
    long all = 0;

    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        long bad = 0, elements = 0;

        for (const auto &s : shapes)
            for (int ordered = 0; ordered < 2; ordered++) {
                bad += compare_product(i, s.m, s.n, s.k, s.group, ordered);
                elements += (long)s.m * s.n;
            }
        printf("  %-30s %ld elements, different %ld\n", kernels[i].symbol, elements, bad);
        all += bad;
    }
    return all;
}

static void time_kernels(void)
{
    static const struct { int m, n, k; } shapes[] = {{1, 4096, 4096}, {8, 4096, 4096}, {64, 4096, 4096}, {512, 4096, 4096}};
    cudaEvent_t from, to;

    cudaEventCreate(&from), cudaEventCreate(&to);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        for (const auto &s : shapes) {
            product p(s.m, s.n, s.k, 128, kernels[i].bits, true);
            uint32_t g[3], b[3];
            float ms = 0;

            td_gptq_cu_grid(s.m, s.n, g, b);
            for (int round = 0; round < 11; round++) {
                if (round == 1)
                    cudaEventRecord(from);
                kernels[i].kernel<<<dim3(g[0], g[1]), dim3(b[0], b[1])>>>((const __half *)p.a.device, p.qweight.device, p.qzeros.device,
                                                                          (const __half *)p.scales.device, nullptr, (__half *)p.c.device, s.m, s.n, s.k, p.groups, 1,
                                                                          s.k, s.n);
            }
            cudaEventRecord(to);
            check(cudaEventSynchronize(to), kernels[i].symbol);
            cudaEventElapsedTime(&ms, from, to);
            printf("  %-30s m %3d n %d k %d: %.1f us\n", kernels[i].symbol, s.m, s.n, s.k, ms * 100);
        }
}

int main(int argc, char **argv)
{
    void *so = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
    cudaDeviceProp device;

    if (!so) {
        printf("usage: gpu_kernels simt_test.so: %s\n", argc == 2 ? dlerror() : "which?");
        return 2;
    }
    emulate = (launch_fn)dlsym(so, "td_simt_launch");
    emulate_kernel = (launch_kernel_fn)dlsym(so, "td_simt_launch_kernel");
    test_kernels = (const td_simt_kernel *)dlsym(so, "td_simt_kernels_simt_test");
    if (!emulate || !emulate_kernel || !test_kernels) {
        printf("%s: no emulator with the test's kernels\n", argv[1]);
        return 2;
    }
    check(cudaGetDeviceProperties(&device, 0), "no GPU");
    printf("%s, compute capability %d.%d\n", device.name, device.major, device.minor);
    const long bad = compare_halves(1 << 21) + compare_products();

    time_kernels();
    printf("%s\n", bad ? "gpu_kernels: DIFFERENT from the emulator" : "gpu_kernels: equal to the emulator, bit for bit");
    return bad != 0;
}
