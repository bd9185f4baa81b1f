/* elf.h - 64-bit little-endian ELF in memory: host libraries, cubins, AMD code objects.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing that the file says is believed unchecked. Source: System V gABI, chapter 4 (headers, sections,
 * symbols, notes; extended numbering of sections). Only sections are read, because all three kinds of
 * file have them. Nothing is copied: results point into the caller's bytes. */
#ifndef TD_KERNELS_GPUCODE_ELF_H
#define TD_KERNELS_GPUCODE_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define TD_ELF_CUDA 190            /* e_machine */
#define TD_ELF_AMDGPU 224
#define TD_ELF_MAX_NAME 65536      /* bytes of a section's or symbol's name; CUTLASS's are some thousand */

enum { TD_ELF_REL = 1, TD_ELF_SYMTAB = 2, TD_ELF_NOTE = 7, TD_ELF_NOBITS = 8, TD_ELF_SYMTAB_SHNDX = 18 }; /* e_type; sh_type */

struct td_elf {
    const uint8_t *data;
    size_t n;
    uint16_t type, machine;        /* e_type, e_machine */
    uint32_t flags;                /* e_flags */
    uint8_t abi_version;
    uint32_t n_sections;           /* all headers lie in the bytes */
    const uint8_t *sections;
    const char *names; size_t names_len; /* .shstrtab; NULL: sections have no names */
};

struct td_elf_section {
    const char *name;              /* "" where it has none */
    uint32_t type, link, info;
    const uint8_t *data;           /* NULL for NOBITS */
    uint64_t size;                 /* of NOBITS: its size in memory, unchecked */
};

struct td_elf_symbol {
    const char *name;
    uint8_t kind, other;           /* low four bits of st_info; st_other */
    uint32_t section;              /* index, extended numbering resolved; 0: undefined */
};

bool td_elf_is(const void *data, size_t n);   /* by the first four bytes */
/* TD_EUNSUPPORTED: 32 bits or big-endian. TD_ETRUNCATED, TD_ECORRUPT. The bytes must outlive *elf. */
int td_elf_open(struct td_elf *elf, const void *data, size_t n, struct td_error *err);
/* Section i < n_sections. */
int td_elf_section_at(const struct td_elf *elf, uint32_t i, struct td_elf_section *out, struct td_error *err);
/* Find the first section of that name: 1: found; 0: none; < 0: its header is bad. */
int td_elf_section_find(const struct td_elf *elf, const char *name, struct td_elf_section *out, struct td_error *err);

/* The symbols of a file: open, then for (i = 0; i < t.n; i++) at. */
struct td_elf_symbols {
    const uint8_t *entry;
    size_t n;
    const char *names;
    size_t names_len;
    const uint8_t *more;
    size_t n_more;
};
/* A file without a symbol table gives t->n 0. */
int td_elf_symbols_open(const struct td_elf *elf, struct td_elf_symbols *t, struct td_error *err);
/* Symbol i < t->n. False: its name does not end inside the table of names. */
bool td_elf_symbol_at(const struct td_elf_symbols *t, size_t i, struct td_elf_symbol *out);

/* The bytes of the first note of that owner and type in a NOTE section. NULL: none. */
const uint8_t *td_elf_note_find(const struct td_elf_section *s, const char *owner, uint32_t type, size_t *len);

uint16_t td_le16(const uint8_t *p);
uint32_t td_le32(const uint8_t *p);
uint64_t td_le64(const uint8_t *p);

#endif
