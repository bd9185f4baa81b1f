/* node_cost.cu - what a node that copies costs behind each product of a CUDA graph, by how it copies
 * and how it is joined to the graph.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   nvcc -std=c++17 -O2 -arch=sm_90 -I. bench/tap/node_cost.cu -o node_cost && ./node_cost [ROUNDS]
 *
 * The graph is a decode step of 32 layers of an 8B model's sizes with one row: 128 products of 4-bit
 * weights, which come from memory, and a small kernel behind each. Each form is launched in each
 * round, in random order; its cost is the difference to the graph without copies of the same round,
 * over the products:
 *   behind others : on the GPU, several launches one behind the other
 *   alone         : from before a launch to the end of its graph by the host's clock, with an idle GPU
 *                   before it, as a server has it that waits for a step's token
 *   the call      : of those, how long the host was in the call that launches
 * What was copied must be what the form "behind" copied. Asserts no time. */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include <cuda_runtime.h>

#include "recorder/tap/gpu/gpu_gather_ptx.h"

#define CHECK(call) check((call), #call, __LINE__)
static void check(cudaError_t e, const char *what, int line)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "node_cost: line %d: %s: %s\n", line, what, cudaGetErrorString(e));
        exit(4);
    }
}

enum { LAYERS = 32, STORED = 8, PRODUCTS = 4, OPS = LAYERS * PRODUCTS, LAUNCHES = 5, PIECES = 16, TENSORS = 4 };
static const struct { int k, n; } size_of_product[PRODUCTS] = {{4096, 6144}, {4096, 4096}, {4096, 28672}, {14336, 4096}};

/* ---- the server's kernels -------------------------------------------------------------------- */

/* c[n] of a[k] and w[n][k] of 4 bits; integers in place of floats. A warp makes a value of c. */
__global__ void product(uint16_t *c, const uint16_t *a, const uint4 *w, int k, int n)
{
    const int lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;

    for (; row < n; row += warps) {
        unsigned sum = 0;

        for (int i = lane; i < k / 32; i += 32) {
            const uint4 x = w[(size_t)row * (k / 32) + i];
            const unsigned y = a[i * 32 % k] * 2654435761u;

            sum += (x.x ^ y) + (x.y ^ y << 3) + (x.z ^ y >> 5) + (x.w ^ y << 7);
        }
        for (int i = 16; i; i /= 2)
            sum += __shfl_down_sync(~0u, sum, i);
        if (!lane)
            c[row] = (uint16_t)(sum >> 8);
    }
}

__global__ void small(uint16_t *a, const uint16_t *c, int n, int n_c)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a[i] = (uint16_t)(c[i % n_c] * 3u + c[(i + 1) % n_c]);
}

/* ---- kernels that copy ----------------------------------------------------------------------- */

struct piece { uint64_t to, from, bytes, pitch; uint32_t row_bytes, unit, end, unused; }; /* as td_gather reads it */

__global__ void nothing() {}

/* Samples of the weights of all products. */
struct sample { const uint4 *from; uint4 *to; };
__global__ void samples(const sample *s, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < 2 * n)
        s[i / 2].to[i % 2] = s[i / 2].from[i % 2];
}

/* ---- forms ----------------------------------------------------------------------------------- */

enum kind { NONE, NOTHING, GATHER, MEMCPY };
enum edge { KEPT, FULL, PROGRAMMATIC, LAUNCHED };
struct form {
    const char *name;
    kind what;
    edge how;            /* KEPT: the product's own edges stay beside those of the copy */
    int bytes, threads;  /* of a row, of a block of td_gather */
    bool sampled;        /* a sample of each weight tensor in each node */
    bool beside;         /* A is copied beside the product, C behind it */
    bool once;           /* one node at the graph's end for all samples */
    bool step;           /* and behind the graph one copy of all that was copied, as a recorded step has it */
};
static const form forms[] = {
    {"none", NONE},
    {"empty node, edges kept", NOTHING, KEPT},
    {"empty node", NOTHING, FULL},
    {"empty node, programmatic", NOTHING, PROGRAMMATIC},
    {"empty node, at launch", NOTHING, LAUNCHED},
    {"behind", GATHER, FULL, 4096, 256, true},
    {"behind, and the step's copy", GATHER, FULL, 4096, 256, true, false, false, true},
    {"behind, edges kept", GATHER, KEPT, 4096, 256, true},
    {"behind, samples once", GATHER, FULL, 4096, 256, false, false, true},
    {"programmatic", GATHER, PROGRAMMATIC, 4096, 256, true},
    {"at launch", GATHER, LAUNCHED, 4096, 256, true},
    {"at launch, and the step's copy", GATHER, LAUNCHED, 4096, 256, true, false, false, true},
    {"at launch, rows of 8 KiB", GATHER, LAUNCHED, 8192, 512, true},
    {"at launch, rows of 2 KiB", GATHER, LAUNCHED, 2048, 128, true},
    {"at launch, samples once", GATHER, LAUNCHED, 4096, 256, false, false, true},
    {"A beside, C behind", GATHER, FULL, 4096, 256, true, true},
    {"two memcpy nodes", MEMCPY, FULL},
};
enum { FORMS = sizeof forms / sizeof *forms };

struct op {
    int k, n;
    uint16_t *a, *c;
    const uint4 *w;
    char *slot;
    uint64_t bytes;
};
static op ops[OPS];
static char *arena, *ring;
static uint64_t arena_bytes;
static sample *all_samples;
static cudaKernel_t gather_plain, gather_waits;

/* ---- graphs ---------------------------------------------------------------------------------- */

static cudaGraphNode_t add_kernel(cudaGraph_t g, cudaGraphNode_t after, const void *f, dim3 grid, dim3 block, void **params)
{
    cudaKernelNodeParams p = {};
    cudaGraphNode_t node;

    p.func = (void *)f, p.gridDim = grid, p.blockDim = block, p.kernelParams = params;
    CHECK(cudaGraphAddKernelNode(&node, g, after ? &after : NULL, after ? 1 : 0, &p));
    return node;
}

static const char *refused; /* why the driver does not make a form */

static void add_edge(cudaGraph_t g, cudaGraphNode_t from, cudaGraphNode_t to, edge how)
{
    cudaGraphEdgeData e = {};

    if (how == PROGRAMMATIC || how == LAUNCHED) {
        e.type = cudaGraphDependencyTypeProgrammatic;
        e.from_port = how == LAUNCHED ? cudaGraphKernelNodePortLaunchCompletion : cudaGraphKernelNodePortProgrammatic;
    }
    const cudaError_t rc = cudaGraphAddDependencies(g, &from, &to, &e, 1);
    if (rc != cudaSuccess)
        refused = cudaGetErrorString(rc);
}

static int add_piece(piece *p, int n, uint64_t to, uint64_t from, uint64_t bytes)
{
    p[n] = {to, from, bytes, 0, 0, 16, 0, 0};
    return n + 1;
}

static int fill(piece *p, const op &o, bool a, bool c, bool sampled)
{
    int n = 0;

    if (a)
        n = add_piece(p, n, (uint64_t)o.slot, (uint64_t)o.a, 2 * o.k);
    if (c)
        n = add_piece(p, n, (uint64_t)o.slot + 2 * o.k, (uint64_t)o.c, 2 * o.n);
    for (int t = 0; sampled && t < TENSORS; t++)
        n = add_piece(p, n, (uint64_t)o.slot + 2 * (o.k + o.n) + 32 * t, (uint64_t)o.w + ((uint64_t)o.k * o.n / 2 / (t + 2) & ~31ull), 32);
    return n;
}

/* A node without edges. */
static cudaGraphNode_t add_copy(cudaGraph_t g, const form &f, piece *p, int n)
{
    void *params[] = {p};
    unsigned blocks = 0;

    for (int i = 0; i < n; i++) {
        p[i].row_bytes = f.bytes;
        p[i].pitch = f.bytes;
        blocks += (unsigned)((p[i].bytes + f.bytes - 1) / f.bytes);
        p[i].end = blocks;
    }
    return add_kernel(g, NULL, (const void *)(f.how == PROGRAMMATIC || f.how == LAUNCHED ? gather_waits : gather_plain), dim3(blocks), dim3(f.threads), params);
}

/* What the form adds behind the product; returns the node on which the next kernel depends. before: on which the product depends. */
static cudaGraphNode_t add_form(cudaGraph_t g, const form &f, const op &o, cudaGraphNode_t before, cudaGraphNode_t node, cudaGraphNode_t *also)
{
    piece p[PIECES] = {}, q[PIECES] = {};
    cudaGraphNode_t copy, second;

    *also = NULL;
    switch (f.what) {
    case NONE:
        return node;
    case NOTHING:
        copy = add_kernel(g, NULL, (const void *)nothing, 1, 32, NULL);
        break;
    case MEMCPY:
        CHECK(cudaGraphAddMemcpyNode1D(&second, g, &node, 1, o.slot, o.a, 2 * o.k, cudaMemcpyDeviceToDevice));
        CHECK(cudaGraphAddMemcpyNode1D(&copy, g, &second, 1, o.slot + 2 * o.k, o.c, 2 * o.n, cudaMemcpyDeviceToDevice));
        return copy;
    default:
        if (f.beside) {
            second = add_copy(g, f, q, fill(q, o, true, false, f.sampled));
            if (before)
                add_edge(g, before, second, FULL);
            *also = second;
        }
        copy = add_copy(g, f, p, fill(p, o, !f.beside, true, f.sampled && !f.beside));
    }
    add_edge(g, node, copy, f.how);
    if (f.how == KEPT)
        *also = node;
    return copy;
}

static cudaGraphNode_t add_small(cudaGraph_t g, cudaGraphNode_t after, cudaGraphNode_t also, uint16_t *a, const uint16_t *c, int n, int n_c)
{
    void *params[] = {&a, &c, &n, &n_c};
    cudaGraphNode_t node = add_kernel(g, after, (const void *)small, (n + 1023) / 1024, 256, params);

    if (also)
        add_edge(g, also, node, FULL);
    return node;
}

static cudaGraphExec_t make(const form &f, int multiprocessors)
{
    cudaGraph_t g;
    cudaGraphExec_t exec;
    cudaGraphNode_t last = NULL, also = NULL;
    int n_samples = OPS * TENSORS;

    CHECK(cudaGraphCreate(&g, 0));
    for (int i = 0; i < OPS; i++) {
        op &o = ops[i];
        void *params[] = {&o.c, &o.a, &o.w, &o.k, &o.n};
        cudaGraphNode_t node = add_kernel(g, last, (const void *)product, 4 * multiprocessors, 256, params), before = last;

        last = add_form(g, f, o, before, node, &also);
        last = add_small(g, last, also, ops[(i + 1) % OPS].a, o.c, ops[(i + 1) % OPS].k, o.n);
    }
    if (f.once) {
        void *params[] = {&all_samples, &n_samples};

        add_kernel(g, last, (const void *)samples, (2 * n_samples + 255) / 256, 256, params);
    }
    const cudaError_t rc = cudaGraphInstantiate(&exec, g, 0);
    if (rc != cudaSuccess)
        refused = cudaGetErrorString(rc);
    CHECK(cudaGraphDestroy(g));
    return refused ? NULL : exec;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static char *device(uint64_t bytes, int value)
{
    void *p;

    CHECK(cudaMalloc(&p, bytes));
    CHECK(cudaMemset(p, value, bytes));
    return (char *)p;
}

__global__ void scatter(uint32_t *p, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
        p[i] = (uint32_t)(i * 2654435761u ^ i >> 7);
}

static void lay_out()
{
    uint16_t *a[2] = {(uint16_t *)device(2 * 14336, 1), (uint16_t *)device(2 * 14336, 2)}, *c[2] = {(uint16_t *)device(2 * 28672, 0), (uint16_t *)device(2 * 28672, 0)};
    const uint4 *w[STORED * PRODUCTS];
    std::vector<sample> s;

    for (int i = 0; i < STORED * PRODUCTS; i++) {
        const uint64_t bytes = (uint64_t)size_of_product[i % PRODUCTS].k * size_of_product[i % PRODUCTS].n / 2;

        w[i] = (const uint4 *)device(bytes, 0);
        scatter<<<1024, 256>>>((uint32_t *)w[i], bytes / 4);
    }
    for (int i = 0; i < OPS; i++) {
        ops[i] = {size_of_product[i % PRODUCTS].k, size_of_product[i % PRODUCTS].n, a[i % 2], c[i % 2], w[i % (STORED * PRODUCTS)]};
        ops[i].bytes = (2 * (ops[i].k + ops[i].n) + 32 * TENSORS + 255) / 256 * 256;
        arena_bytes += ops[i].bytes;
    }
    arena = device(arena_bytes, 0), ring = device(arena_bytes, 0);
    char *at = arena;
    for (int i = 0; i < OPS; at += ops[i++].bytes) {
        piece p[PIECES];

        ops[i].slot = at;
        for (int n = fill(p, ops[i], false, false, true), t = 0; t < n; t++)
            s.push_back({(const uint4 *)p[t].from, (uint4 *)p[t].to});
    }
    all_samples = (sample *)device(s.size() * sizeof s[0], 0);
    CHECK(cudaMemcpy(all_samples, s.data(), s.size() * sizeof s[0], cudaMemcpyHostToDevice));
}

static cudaKernel_t load(const char *text, const char *symbol)
{
    cudaLibrary_t library;
    cudaKernel_t k;

    CHECK(cudaLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cudaLibraryGetKernel(&k, library, symbol));
    return k;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static float launch(cudaGraphExec_t exec, const form &f, cudaStream_t stream, cudaEvent_t *e)
{
    float ms;

    CHECK(cudaEventRecord(e[0], stream));
    for (int i = 0; i < LAUNCHES; i++) {
        CHECK(cudaGraphLaunch(exec, stream));
        if (f.step)
            CHECK(cudaMemcpyAsync(ring, arena, arena_bytes, cudaMemcpyDeviceToDevice, stream));
    }
    CHECK(cudaEventRecord(e[1], stream));
    CHECK(cudaEventSynchronize(e[1]));
    CHECK(cudaEventElapsedTime(&ms, e[0], e[1]));
    return 1000 * ms / LAUNCHES;
}

static double now_us()
{
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* A launch alone; *call: the host's part. */
static double launch_alone(cudaGraphExec_t exec, const form &f, cudaStream_t stream, double *call)
{
    const double from = now_us();

    CHECK(cudaGraphLaunch(exec, stream));
    if (f.step)
        CHECK(cudaMemcpyAsync(ring, arena, arena_bytes, cudaMemcpyDeviceToDevice, stream));
    *call = now_us() - from;
    CHECK(cudaStreamSynchronize(stream));
    return now_us() - from;
}

static std::vector<char> copied(cudaGraphExec_t exec, cudaStream_t stream)
{
    std::vector<char> out(arena_bytes);

    CHECK(cudaMemset(arena, 0, arena_bytes));
    CHECK(cudaMemset(ops[0].a, 7, 2 * ops[0].k));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(out.data(), arena, arena_bytes, cudaMemcpyDeviceToHost));
    return out;
}

static double at(std::vector<double> v, double part)
{
    std::sort(v.begin(), v.end());
    return v[(size_t)(part * (v.size() - 1) + 0.5)];
}

/* A 95 % interval of the median, by drawing anew. */
static void interval(const std::vector<double> &v, double *lo, double *hi)
{
    std::mt19937 r(1);
    std::vector<double> medians;

    for (int i = 0; i < 1000; i++) {
        std::vector<double> w(v.size());

        for (double &x : w)
            x = v[r() % v.size()];
        medians.push_back(at(w, 0.5));
    }
    *lo = at(medians, 0.025), *hi = at(medians, 0.975);
}

/* What each form costs, by its rounds and those of the form without copies. */
static void print_costs(const char *what, const std::vector<double> us[FORMS])
{
    printf("%-36s %8s  %-18s %s\n", what, "us/node", "95 % interval", "middle half of rounds");
    for (int f = 1; f < FORMS; f++) {
        std::vector<double> d;
        double lo, hi;

        for (size_t i = 0; i < us[f].size(); i++)
            d.push_back((us[f][i] - us[0][i]) / OPS);
        if (d.empty())
            continue;
        interval(d, &lo, &hi);
        printf("%-36s %8.3f  [%.3f, %.3f]     %.3f to %.3f\n", forms[f].name, at(d, 0.5), lo, hi, at(d, 0.25), at(d, 0.75));
    }
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 40;
    std::vector<double> us[FORMS], alone[FORMS], call[FORMS];
    std::vector<int> order;
    std::vector<char> want;
    cudaGraphExec_t exec[FORMS];
    cudaDeviceProp prop;
    cudaStream_t stream;
    cudaEvent_t e[2];
    std::mt19937 r(1);
    int wrong = 0;

    CHECK(cudaGetDeviceProperties(&prop, 0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&e[0])), CHECK(cudaEventCreate(&e[1]));
    gather_plain = load(TAP_GPU_GATHER_PTX("6.0", "sm_60", "td_gather", ""), "td_gather");
    gather_waits = load(TAP_GPU_GATHER_PTX("7.8", "sm_90", "td_gather_waits", TAP_GPU_GATHER_WAITS), "td_gather_waits");
    lay_out();
    for (int i = 0; i < FORMS; i++) {
        refused = NULL;
        exec[i] = make(forms[i], prop.multiProcessorCount);
        if (!exec[i]) {
            printf("refused: \"%s\": %s\n", forms[i].name, refused);
            cudaGetLastError();
            continue;
        }
        order.push_back(i);
        if (!strcmp(forms[i].name, "behind"))
            want = copied(exec[i], stream);
    }
    for (int i = 0; i < FORMS; i++)   /* ten times: a copy that comes too early or too late seldom does */
        for (int n = 0; n < 10 && exec[i] && forms[i].what >= GATHER && forms[i].what != MEMCPY; n++)
            if (copied(exec[i], stream) != want) {
                printf("WRONG: \"%s\" copied something else than \"behind\"\n", forms[i].name);
                wrong = 1;
                break;
            }
    for (int i = -3; i < rounds; i++) {
        std::shuffle(order.begin(), order.end(), r);
        for (int f : order) {
            const float t = launch(exec[f], forms[f], stream, e);
            double host, whole = launch_alone(exec[f], forms[f], stream, &host);

            if (i < 0)
                continue;             /* it warms up */
            us[f].push_back(t);
            alone[f].push_back(whole);
            call[f].push_back(host);
        }
    }
    printf("%s, %d products, %d small kernels, %.1f MB copied; %d rounds of %d launches and one alone; without copies a graph takes %.1f us, "
           "alone %.1f us, the call %.1f us\n",
           prop.name, OPS, OPS, arena_bytes / 1e6, rounds, LAUNCHES, at(us[0], 0.5), at(alone[0], 0.5), at(call[0], 0.5));
    print_costs("behind others", us);
    print_costs("alone", alone);
    print_costs("the call", call);
    return wrong;
}
