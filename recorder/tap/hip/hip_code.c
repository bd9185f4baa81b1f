/* hip_code.c - how the parameters of kernels lie, read from the code objects that HIP's runtime
 * loads.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A launch passes one pointer a parameter (kernelParams), and HIP has no cuFuncGetParamInfo.
 * Reading more pointers than the kernel has parameters would read beyond the server's array. The
 * code object's metadata (note 32 of owner AMDGPU, LLVM's AMDGPUUsage; kernels/gpucode/hsaco.c
 * reads the same of files) says what parameters a kernel declares.
 *
 * HIP loads each code object, from a fat binary or a module, packed (CCOB) or not, by
 * hsa_code_object_reader_create_from_memory of libhsa-runtime64, to which it is linked (ROCclr's
 * rocprogram.cpp; so in Debian's 5.2.3, and as others saw it in 7.0). There the code is one
 * unpacked ELF file for one device, with its size. */
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "kernels/abi/hsa_abi.h"
#include "kernels/adapters/adapters.h"
#include "kernels/gpucode/msgpack.h"
#include "kernels/abi/hip_abi.h"
#include "recorder/tap/hip/hip_code.h"
#include "recorder/tap/hip/hip_others.h"
#include "recorder/tap/hip/hip_use.h"

#define AMDGPU 224                    /* e_machine */
#define METADATA 32                   /* NT_AMDGPU_METADATA */
/* kernels; vLLM's gptq and ours are some forty, the rest is room */
#define KNOWN 512u

static struct known {
    char symbol[TAP_SYMBOL];
    struct td_gpu_param params[TD_GPU_PARAMS];
    _Atomic int n;                    /* number of params; or TAP_HIP_UNSURE */
} table[KNOWN];
static _Atomic unsigned used;         /* entries of table that are complete */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

/* ---- what is known --------------------------------------------------------------------------- */

static struct known *find(const char *symbol)
{
    unsigned n = atomic_load_explicit(&used, memory_order_acquire), i;

    for (i = 0; i < n; i++)
        if (!strcmp(table[i].symbol, symbol))
            return &table[i];
    return NULL;
}

int tap_hip_code_params(const char *symbol, struct td_gpu_param params[TD_GPU_PARAMS])
{
    const struct known *k = find(symbol);

    if (!k)
        return tap_hip_others_params(symbol, params);
    memcpy(params, k->params, sizeof k->params);
    return atomic_load_explicit(&k->n, memory_order_relaxed);
}

/* Remember a kernel that an adapter knows. The same kernel for another device is no news. Another build's kernel of that
 * name with other parameters makes both unreadable: which one is launched is not known. */
static void add(const char *symbol, const struct td_gpu_param params[TD_GPU_PARAMS], int n)
{
    struct known *k;
    unsigned at;

    pthread_mutex_lock(&adding);
    k = find(symbol);
    at = atomic_load(&used);
    if (k) {
        if (atomic_load(&k->n) != n || memcmp(k->params, params, (size_t)n * sizeof *params))
            atomic_store(&k->n, TAP_HIP_UNSURE);
    } else if (at < KNOWN) {
        strcpy(table[at].symbol, symbol);
        memcpy(table[at].params, params, (size_t)n * sizeof *params);
        atomic_store(&table[at].n, n);
        atomic_store_explicit(&used, at + 1, memory_order_release);
    }
    pthread_mutex_unlock(&adding);
}

static void add_other(const char *symbol, const struct td_gpu_param params[TD_GPU_PARAMS], int n)
{
    pthread_mutex_lock(&adding);
    tap_hip_others_add(symbol, params, n);
    pthread_mutex_unlock(&adding);
}

/* ---- metadata -------------------------------------------------------------------------------- */

static bool number_of(struct td_msgpack m, uint64_t pairs, const char *key, uint64_t most,
                      uint32_t *to)
{
    struct td_msgpack_value v;

    if (td_msgpack_find(&m, pairs, key, &v) != 1 || v.kind != TD_MP_UINT || v.u > most)
        return false;
    *to = (uint32_t)v.u;
    return true;
}

static bool is_hidden(const struct td_msgpack_value *v)
{
    return v->len > 7 && !memcmp(v->str, "hidden_", 7);
}

/* Read the parameters that a kernel declares: .args without the runtime's own. m: at the array's
 * first element. -1: they make no sense. */
static int read_args(struct td_msgpack m, uint64_t count, uint32_t block_bytes,
                     struct td_gpu_param params[TD_GPU_PARAMS])
{
    struct td_msgpack_value map, kind;
    int n = 0;

    for (; count--;) {
        struct td_msgpack seek = m, first;
        struct td_gpu_param p;

        if (!td_msgpack_skip(&m) || !td_msgpack_next(&seek, &map) || map.kind != TD_MP_MAP)
            return -1;
        first = seek;
        if (td_msgpack_find(&seek, map.u, ".value_kind", &kind) != 1 || kind.kind != TD_MP_STR)
            return -1;
        if (is_hidden(&kind))
            continue;
        if (n == TD_GPU_PARAMS || !number_of(first, map.u, ".offset", block_bytes, &p.offset) ||
            !number_of(first, map.u, ".size", block_bytes - p.offset, &p.size) || !p.size)
            return -1;
        params[n++] = p;
    }
    return n;
}

/* Read a kernel's map; m is at its first key. */
static void read_kernel(struct td_msgpack m, uint64_t pairs)
{
    struct td_gpu_param params[TD_GPU_PARAMS] = {{0, 0}};
    struct td_msgpack seek = m;
    struct td_msgpack_value v;
    char symbol[TAP_SYMBOL];
    uint32_t block_bytes;
    bool known;
    int n;

    if (td_msgpack_find(&seek, pairs, ".name", &v) != 1 || v.kind != TD_MP_STR ||
        v.len >= sizeof symbol || memchr(v.str, 0, v.len))
        return;
    memcpy(symbol, v.str, v.len);
    symbol[v.len] = '\0';
    td_gpu_adapter_find(symbol, NULL, 0, &known);
    if (!number_of(m, pairs, ".kernarg_segment_size", UINT32_MAX, &block_bytes))
        return;
    seek = m;
    if (td_msgpack_find(&seek, pairs, ".args", &v) != 1 || v.kind != TD_MP_ARRAY)
        return;
    n = read_args(seek, v.u, block_bytes, params);
    if (n > 0 && known)
        add(symbol, params, n);
    else if (n > 0)
        add_other(symbol, params, n);
}

static void read_metadata(const uint8_t *note, size_t n)
{
    struct td_msgpack m = {note, note + n}, seek;
    struct td_msgpack_value root, v, map;

    if (!td_msgpack_next(&m, &root) || root.kind != TD_MP_MAP ||
        td_msgpack_find(&m, root.u, "amdhsa.kernels", &v) != 1 || v.kind != TD_MP_ARRAY)
        return;
    while (v.u--) {
        seek = m;
        if (!td_msgpack_skip(&m) || !td_msgpack_next(&seek, &map) || map.kind != TD_MP_MAP)
            return;
        read_kernel(seek, map.u);
    }
}

/* ---- the ELF file ---------------------------------------------------------------------------- */

/* Read the notes of one segment: n bytes at p. True: the metadata was among them. */
static bool read_notes(const uint8_t *p, size_t n)
{
    Elf64_Nhdr h;

    while (n >= sizeof h) {
        uint64_t name, all;

        memcpy(&h, p, sizeof h);
        name = tap_round_up(h.n_namesz, 4);
        all = sizeof h + name + tap_round_up(h.n_descsz, 4);
        if (sizeof h + name > n || h.n_descsz > n - sizeof h - name)
            return false;
        if (h.n_type == METADATA && h.n_namesz == sizeof "AMDGPU" &&
            !memcmp(p + sizeof h, "AMDGPU", sizeof "AMDGPU")) {
            read_metadata(p + sizeof h + name, h.n_descsz);
            return true;
        }
        if (all > n)
            return false;
        p += all;
        n -= all;
    }
    return false;
}

void tap_hip_code_note(const void *object, size_t n)
{
    const uint8_t *p = object;
    Elf64_Ehdr e;
    Elf64_Phdr h;
    unsigned i;

    if (!p || n < sizeof e)
        return;
    memcpy(&e, p, sizeof e);
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
        e.e_machine != AMDGPU || e.e_phentsize != sizeof h)
        return;
    for (i = 0; i < e.e_phnum; i++) {
        if (e.e_phoff > n || n - e.e_phoff < (i + 1) * sizeof h)
            return;
        memcpy(&h, p + e.e_phoff + i * sizeof h, sizeof h);
        if (h.p_type == PT_NOTE && h.p_offset <= n && h.p_filesz <= n - h.p_offset &&
            read_notes(p + h.p_offset, h.p_filesz))
            return;
    }
}

/* ---- where code objects pass ----------------------------------------------------------------- */

typedef int reader_fn TD_HSA_READER_ARGUMENTS;
TAP_EXPORT reader_fn hsa_code_object_reader_create_from_memory;
static struct tap_symbol symbol = {.name = "hsa_code_object_reader_create_from_memory"};

int hsa_code_object_reader_create_from_memory(const void *object, size_t n, uint64_t *reader)
{
    int e = errno, rc;
    reader_fn *real = (reader_fn *)tap_real_find(&symbol, __builtin_return_address(0));

    errno = e;
    if (!real)
        return TD_HSA_ERROR;
    rc = real(object, n, reader);
    e = errno;
    if (!rc) {
        tap_hip_code_note(object, n);
        tap_hip_note_use();
    }
    errno = e;
    return rc;
}

void tap_hip_code_forked(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    adding = fresh;                   /* a thread of the parent may have held the lock */
}
