/* cubin.c - the kernels of a cubin.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/cubin.h"

#include <stdlib.h>
#include <string.h>

#define INFO 0x70000000u           /* sh_type of .nv.info* */
#define COMPAT 0x70000086u         /* of .nv.compat */
#define STT_FUNC 2
#define STO_CUDA_ENTRY 0x10
#define RESERVED_SHARED 1024       /* of sm_90 and later: in the section, not the program's */

enum {
    MAX_THREADS = 0x05,
    REQUIRED_BLOCK = 0x10,
    PARAM = 0x17,
    PARAM_BYTES = 0x19,
    REGISTERS = 0x2f,
    CLUSTER = 0x3d,
    PARAM_LARGE = 0x45
};
enum { COMPAT_ACCELERATOR = 0x09 };

/* ---- attributes ------------------------------------------------------------------------------ */

struct attribute { uint8_t code; uint16_t value; const uint8_t *data; size_t n; }; /* data: NULL unless the format has bytes */
struct cursor { const uint8_t *p; size_t left; };

/* 1 filled, 0 the end, -1 it does not end inside the section. */
static int next_attribute(struct cursor *c, struct attribute *a)
{
    uint8_t format;

    if (c->left < 4)
        return c->left ? -1 : 0;
    format = c->p[0];
    *a = (struct attribute){.code = c->p[1], .value = td_le16(c->p + 2)};
    c->p += 4;
    c->left -= 4;
    if (format != 4)
        return 1;
    if (a->value > c->left)
        return -1;
    a->data = c->p;
    a->n = a->value;
    c->p += a->n;
    c->left -= a->n;
    return 1;
}

static struct cursor open_attributes(const struct td_elf_section *s)
{
    return (struct cursor){s->data, s->data ? (size_t)s->size : 0};
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* ABI 7 (CUDA 12 and before): 0x..0d5a is sm_90a; ABI 8: 0x..5a04, and the 'a' is in .nv.compat. */
static void read_flags(const struct td_elf *elf, struct td_cubin_facts *out)
{
    bool old = elf->abi_version < 8;

    out->sm = (int)((old ? elf->flags : elf->flags >> 8) & 0xff);
    out->variant = old && elf->flags & 0x800 ? 'a' : 0;
}

static void read_compat(const struct td_elf_section *s, struct td_cubin_facts *out)
{
    struct cursor c = open_attributes(s);
    struct attribute a;

    while (next_attribute(&c, &a) > 0)
        if (a.code == COMPAT_ACCELERATOR && !a.data && a.value & 0xff)
            out->variant = 'a';
}

int td_cubin_facts_read(const struct td_elf *elf, struct td_cubin_facts *out, struct td_error *err)
{
    struct td_elf_section s;
    uint32_t i;
    int rc;

    *out = (struct td_cubin_facts){.relocatable = elf->type == TD_ELF_REL};
    read_flags(elf, out);
    for (i = 1; i < elf->n_sections; i++) {
        if ((rc = td_elf_section_at(elf, i, &s, err)))
            return rc;
        if (s.type == COMPAT)
            read_compat(&s, out);
        else if (!strcmp(s.name, ".nv.global") || !strcmp(s.name, ".nv.global.init"))
            out->global_bytes += s.size;
        else if (!strcmp(s.name, ".nv.constant3"))
            out->constant_bytes += s.size;
    }
    return TD_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* By section of code: which sections say more of its kernel. 0: none. */
struct belongings { uint32_t info, shared; };

struct program {
    const struct td_elf *elf;
    int sm;
    struct belongings *of;         /* [elf->n_sections] */
    uint32_t *registers;           /* [symbols.n] */
    struct td_elf_symbols symbols;
};

static void read_triple(const struct attribute *a, uint32_t out[3])
{
    int i;

    for (i = 0; i < 3 && a->n >= 12; i++)
        out[i] = td_le32(a->data + i * 4);
}

static uint32_t threads_of_block(const uint32_t d[3])
{
    uint64_t n = (uint64_t)d[0] * d[1];

    return n > 65536 || n * d[2] > 65536 ? 0 : (uint32_t)(n * d[2]);
}

/* Both forms: {u32 index, u16 ordinal, u16 offset, ...}, then u32 size << 18 | bank ..., or u16 size, u16 flags. */
static int read_param(struct td_gpu_kernel *k, const struct attribute *a, struct td_error *err)
{
    struct td_gpu_param *p = (struct td_gpu_param *)k->params;
    uint16_t ordinal;
    uint32_t size;

    if (a->n < 12)
        return td_fail(err, TD_ECORRUPT, "kernel %.200s: a parameter is described in %zu bytes, not 12", k->symbol, a->n);
    ordinal = td_le16(a->data + 4);
    size = a->code == PARAM ? td_le32(a->data + 8) >> 18 : td_le16(a->data + 8);
    if (ordinal >= k->n_params || p[ordinal].size || !size)
        return td_fail(err, TD_ECORRUPT,
                       "kernel %.200s: parameter %u of %d is described twice, or has no size",
                       k->symbol, ordinal, k->n_params);
    p[ordinal] = (struct td_gpu_param){td_le16(a->data + 6), size};
    return TD_OK;
}

static int check_params(const struct td_gpu_kernel *k, struct td_error *err)
{
    int i;

    for (i = 0; i < k->n_params; i++)
        if (k->params[i].offset > k->param_bytes || k->params[i].size > k->param_bytes - k->params[i].offset)
            return td_fail(
                err, TD_ECORRUPT,
                "kernel %.200s: parameter %d (offset %u, %u bytes) is outside its block of %u",
                k->symbol, i, k->params[i].offset, k->params[i].size, k->param_bytes);
    return TD_OK;
}

static int count_params(const struct td_elf_section *s, const char *symbol, size_t *n, struct td_error *err)
{
    struct cursor c = open_attributes(s);
    struct attribute a;
    int rc;

    for (*n = 0; (rc = next_attribute(&c, &a)) > 0;)
        *n += a.code == PARAM || a.code == PARAM_LARGE;
    return rc ? td_fail(err, TD_ECORRUPT, "kernel %.200s: its attributes do not end inside their section", symbol) : TD_OK;
}

static int read_info(struct td_gpu_kernel *k, const struct td_elf_section *s, struct td_error *err)
{
    struct cursor c = open_attributes(s);
    struct attribute a;
    uint32_t most[3] = {0};
    size_t n;
    int rc;

    if ((rc = count_params(s, k->symbol, &n, err)) || (rc = td_gpu_kernel_set_params(k, n, false, err)))
        return rc;
    while (next_attribute(&c, &a) > 0) {
        if ((a.code == PARAM || a.code == PARAM_LARGE) && (rc = read_param(k, &a, err)))
            return rc;
        if (a.code == PARAM_BYTES)
            k->param_bytes = a.value;
        else if (a.code == MAX_THREADS)
            read_triple(&a, most);
        else if (a.code == REQUIRED_BLOCK)
            read_triple(&a, k->block);
        else if (a.code == CLUSTER)
            read_triple(&a, k->cluster);
    }
    k->max_threads = threads_of_block(most[0] ? most : k->block);
    return check_params(k, err);
}

static int read_kernel_sections(struct td_gpu_kernel *k, const struct program *p, uint32_t code, struct td_error *err)
{
    struct td_elf_section s;
    int rc;

    if (p->of[code].shared) {
        if ((rc = td_elf_section_at(p->elf, p->of[code].shared, &s, err)))
            return rc;
        if (s.size > UINT32_MAX)
            return td_fail(err, TD_ECORRUPT, "kernel %.200s: %llu bytes of shared memory", k->symbol, (unsigned long long)s.size);
        k->shared_bytes = (uint32_t)s.size - (p->sm >= 90 && s.size >= RESERVED_SHARED ? RESERVED_SHARED : 0);
    }
    if (!p->of[code].info)
        return TD_OK;
    rc = td_elf_section_at(p->elf, p->of[code].info, &s, err);
    return rc ? rc : read_info(k, &s, err);
}

static void read_registers(struct program *p, const struct td_elf_section *s)
{
    struct cursor c = open_attributes(s);
    struct attribute a;

    while (next_attribute(&c, &a) > 0)
        if (a.code == REGISTERS && a.n >= 8 && td_le32(a.data) < p->symbols.n)
            p->registers[td_le32(a.data)] = td_le32(a.data + 4);
}

static int read_sections(struct program *p, struct td_error *err)
{
    static const char shared[] = ".nv.shared.";
    struct td_elf_section s;
    uint32_t i;
    int rc;

    for (i = 1; i < p->elf->n_sections; i++) {
        if ((rc = td_elf_section_at(p->elf, i, &s, err)))
            return rc;
        if (s.type == INFO && !strcmp(s.name, ".nv.info"))
            read_registers(p, &s);
        else if (s.info >= p->elf->n_sections)
            continue;
        else if (s.type == INFO && !strncmp(s.name, ".nv.info.", 9))
            p->of[s.info].info = i;
        else if (s.type == TD_ELF_NOBITS && !strncmp(s.name, shared, sizeof shared - 1) && s.info)
            p->of[s.info].shared = i;
    }
    return TD_OK;
}

static int read_kernels(struct program *p, struct td_gpu_kernel_list *out, struct td_error *err)
{
    struct td_elf_symbol sym;
    size_t i;
    int rc = TD_OK;

    for (i = 0; i < p->symbols.n && !rc; i++) {
        struct td_gpu_kernel *k;

        if (!td_elf_symbol_at(&p->symbols, i, &sym) || sym.kind != STT_FUNC ||
            !(sym.other & STO_CUDA_ENTRY) || !sym.section || sym.section >= p->elf->n_sections)
            continue;
        if (!(k = td_gpu_kernel_add(out, sym.name, strlen(sym.name), err)))
            return err ? err->code : TD_ENOMEM;
        k->registers = p->registers[i];
        rc = read_kernel_sections(k, p, sym.section, err);
    }
    return rc;
}

int td_cubin_kernels(const struct td_elf *elf, int sm, struct td_gpu_kernel_list *out, struct td_error *err)
{
    struct program p = {.elf = elf, .sm = sm};
    struct td_error local = {0};
    int rc = td_elf_symbols_open(elf, &p.symbols, err = err ? err : &local);

    if (rc || !p.symbols.n || !elf->n_sections)
        return rc;
    p.of = calloc(elf->n_sections, sizeof *p.of);
    p.registers = calloc(p.symbols.n, sizeof *p.registers);
    if (!p.of || !p.registers)
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    if (!rc && !(rc = read_sections(&p, err)))
        rc = read_kernels(&p, out, err);
    free(p.of);
    free(p.registers);
    return rc;
}
