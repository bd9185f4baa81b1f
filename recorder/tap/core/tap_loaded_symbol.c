/* tap_loaded_symbol.c - find a function in the loaded libraries without memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The server waits for its function, however little memory there is. So the tables of symbols are
 * read as the dynamic linker has mapped them: by the hash table of DT_GNU_HASH, which every
 * library of today has. Layout: as GNU ld writes it. */
#include "recorder/tap/core/tap_loaded_symbol.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The tables of one library. hash: the numbers of buckets, of symbols before the first one that is
 * hashed, and of words of the bloom filter; its shift; then the filter, the buckets, the chains. */
struct tables {
    const Elf64_Sym *symbols;
    const char *strings;
    const uint32_t *hash;
    const uint16_t *versions;          /* or NULL */
};

struct search {
    const char *name;
    const void *caller;
    void *fn;
};

static bool lies_in(const struct dl_phdr_info *info, const void *address)
{
    const uintptr_t at = (uintptr_t)address - info->dlpi_addr;
    int i;

    for (i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && at >= info->dlpi_phdr[i].p_vaddr &&
            at - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

/* An address of the dynamic section: glibc has added where the library lies, except in the kernel's
 * own. */
static const void *mapped(const struct dl_phdr_info *info, uint64_t address)
{
    return (const void *)(uintptr_t)(address < info->dlpi_addr ? address + info->dlpi_addr
                                                               : address);
}

static bool find_tables(const struct dl_phdr_info *info, struct tables *t)
{
    const Elf64_Dyn *d = NULL;
    int i;

    *t = (struct tables){0};
    for (i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; d && d->d_tag != DT_NULL; d++) {
        const void *p = mapped(info, d->d_un.d_ptr);

        if (d->d_tag == DT_SYMTAB)
            t->symbols = p;
        else if (d->d_tag == DT_STRTAB)
            t->strings = p;
        else if (d->d_tag == DT_GNU_HASH)
            t->hash = p;
        else if (d->d_tag == DT_VERSYM)
            t->versions = p;
    }
    return t->symbols && t->strings && t->hash;
}

static uint32_t hash_of(const char *name)
{
    uint32_t h = 5381;

    while (*name)
        h = h * 33 + (unsigned char)*name++;
    return h;
}

/* Its index, or 0: the symbol that is none. Older versions of a function are passed over. */
static uint32_t index_of(const struct tables *t, const char *name)
{
    const uint32_t n_buckets = t->hash[0], first = t->hash[1], n_bloom = t->hash[2],
                   h = hash_of(name);
    const uint32_t *buckets = t->hash + 4 + 2 * n_bloom, *chains = buckets + n_buckets;
    uint32_t i = n_buckets ? buckets[h % n_buckets] : 0;

    for (; i >= first && i; i++) {
        const uint32_t chain = chains[i - first];

        if ((chain | 1) == (h | 1) && !strcmp(t->strings + t->symbols[i].st_name, name) &&
            t->symbols[i].st_shndx != SHN_UNDEF &&
            ELF64_ST_TYPE(t->symbols[i].st_info) == STT_FUNC &&
            !(t->versions && t->versions[i] & 0x8000))
            return i;
        if (chain & 1)
            break;
    }
    return 0;
}

static int look_into(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *s = data;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    struct tables t;
    uint32_t i;

    (void)size;
    if (lies_in(info, (const void *)(uintptr_t)look_into) ||
        (slash && !strcmp(slash, "/libtapedeck-tap.so")) || !find_tables(info, &t) ||
        !(i = index_of(&t, s->name)))
        return 0;
    if (!s->fn)
        s->fn = (void *)(info->dlpi_addr + t.symbols[i].st_value);
    if (!lies_in(info, s->caller))
        return 0;
    s->fn = (void *)(info->dlpi_addr + t.symbols[i].st_value);
    return 1;
}

void *tap_loaded_symbol(const char *name, const void *caller)
{
    struct search s = {.name = name, .caller = caller};

    dl_iterate_phdr(look_into, &s);
    return s.fn;
}
