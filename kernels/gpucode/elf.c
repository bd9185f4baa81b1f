/* elf.c - 64-bit little-endian ELF in memory, read without believing it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/elf.h"

#include <string.h>

#define HEADER 64
#define SECTION 64                 /* bytes of a section header */
#define SYMBOL 24
#define SHN_XINDEX 0xffff

uint16_t td_le16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t td_le32(const uint8_t *p)
{
    return (uint32_t)td_le16(p) | (uint32_t)td_le16(p + 2) << 16;
}

uint64_t td_le64(const uint8_t *p)
{
    return (uint64_t)td_le32(p) | (uint64_t)td_le32(p + 4) << 32;
}

bool td_elf_is(const void *data, size_t n)
{
    return n >= 4 && !memcmp(data, "\177ELF", 4);
}

/* ---- sections -------------------------------------------------------------------------------- */

/* A string of a table, NULL if it does not end there. */
static const char *string_at(const char *table, size_t len, uint64_t at)
{
    size_t left;

    if (!table || at >= len)
        return NULL;
    left = len - (size_t)at;
    return memchr(table + at, 0, left < TD_ELF_MAX_NAME ? left : TD_ELF_MAX_NAME) ? table + at : NULL;
}

static int read_section(const struct td_elf *elf, uint32_t i, struct td_elf_section *out, struct td_error *err)
{
    const uint8_t *h = elf->sections + (size_t)i * SECTION;
    uint64_t offset = td_le64(h + 24);

    *out = (struct td_elf_section){.name = "",
                                   .type = td_le32(h + 4),
                                   .link = td_le32(h + 40),
                                   .info = td_le32(h + 44),
                                   .size = td_le64(h + 32)};
    if (out->type == 0 || out->type == TD_ELF_NOBITS)
        return TD_OK;
    if (offset > elf->n || out->size > elf->n - offset)
        return td_fail(err, TD_ETRUNCATED, "section %u ends at byte %llu, the ELF file has %zu; was it copied whole?", i,
                       (unsigned long long)(offset + out->size), elf->n);
    out->data = elf->data + offset;
    return TD_OK;
}

static int open_names(struct td_elf *elf, uint32_t index, struct td_error *err)
{
    struct td_elf_section s;

    if (index == SHN_XINDEX)
        index = td_le32(elf->sections + 40);
    if (!index)
        return TD_OK;
    if (index >= elf->n_sections)
        return td_fail(err, TD_ECORRUPT, "the ELF file's section names are in section %u of %u", index, elf->n_sections);
    if (read_section(elf, index, &s, err))
        return err ? err->code : TD_ETRUNCATED;
    elf->names = (const char *)s.data;
    elf->names_len = s.data ? (size_t)s.size : 0;
    return TD_OK;
}

static int open_sections(struct td_elf *elf, struct td_error *err)
{
    uint64_t at = td_le64(elf->data + 40), count = td_le16(elf->data + 60);

    if (!at)
        return TD_OK;
    if (td_le16(elf->data + 58) != SECTION)
        return td_fail(err, TD_ECORRUPT, "the ELF file's section headers have %u bytes, not %d",
                       td_le16(elf->data + 58), SECTION);
    if (at > elf->n || elf->n - at < SECTION)
        return td_fail(
            err, TD_ETRUNCATED,
            "the ELF file's section headers begin at byte %llu of %zu; was it copied whole?",
            (unsigned long long)at, elf->n);
    elf->sections = elf->data + at;
    if (!count)
        count = td_le64(elf->sections + 32);
    if (count > (elf->n - at) / SECTION)
        return td_fail(err, TD_ETRUNCATED,
                       "the ELF file's %llu section headers do not fit into its %zu bytes; was it "
                       "copied whole?",
                       (unsigned long long)count, elf->n);
    elf->n_sections = (uint32_t)count;
    return open_names(elf, td_le16(elf->data + 62), err);
}

int td_elf_open(struct td_elf *elf, const void *data, size_t n, struct td_error *err)
{
    struct td_error local = {0};

    *elf = (struct td_elf){.data = data, .n = n};
    if (!td_elf_is(data, n))
        return td_fail(err, TD_ECORRUPT, "not an ELF file");
    if (n < HEADER)
        return td_fail(err, TD_ETRUNCATED, "an ELF file of %zu bytes; its header alone has %d", n, HEADER);
    if (elf->data[4] != 2 || elf->data[5] != 1)
        return td_fail(err, TD_EUNSUPPORTED,
                       "an ELF file of %s; only 64-bit little-endian ones are read",
                       elf->data[5] != 1 ? "a big-endian machine" : "32 bits");
    elf->abi_version = elf->data[8];
    elf->type = td_le16(elf->data + 16);
    elf->machine = td_le16(elf->data + 18);
    elf->flags = td_le32(elf->data + 48);
    return open_sections(elf, err ? err : &local);
}

int td_elf_section_at(const struct td_elf *elf, uint32_t i, struct td_elf_section *out, struct td_error *err)
{
    int rc = read_section(elf, i, out, err);
    const char *name = string_at(elf->names, elf->names_len, td_le32(elf->sections + (size_t)i * SECTION));

    if (name)
        out->name = name;
    return rc;
}

int td_elf_section_find(const struct td_elf *elf, const char *name, struct td_elf_section *out, struct td_error *err)
{
    uint32_t i;

    for (i = 1; i < elf->n_sections; i++) {
        const char *has = string_at(elf->names, elf->names_len, td_le32(elf->sections + (size_t)i * SECTION));
        int rc;

        if (!has || strcmp(has, name))
            continue;
        rc = td_elf_section_at(elf, i, out, err);
        return rc ? rc : 1;
    }
    return 0;
}

/* ---- symbols --------------------------------------------------------------------------------- */

int td_elf_symbols_open(const struct td_elf *elf, struct td_elf_symbols *t, struct td_error *err)
{
    struct td_elf_section s, names;
    uint32_t i;
    int rc;

    memset(t, 0, sizeof *t);
    for (i = 1; i < elf->n_sections; i++) {
        uint32_t type = td_le32(elf->sections + (size_t)i * SECTION + 4);

        if (type != TD_ELF_SYMTAB && type != TD_ELF_SYMTAB_SHNDX)
            continue;
        if ((rc = td_elf_section_at(elf, i, &s, err)))
            return rc;
        if (type == TD_ELF_SYMTAB_SHNDX && !t->more) {
            t->more = s.data;
            t->n_more = (size_t)s.size / 4;
        } else if (type == TD_ELF_SYMTAB && !t->entry && s.link < elf->n_sections) {
            if ((rc = td_elf_section_at(elf, s.link, &names, err)))
                return rc;
            *t = (struct td_elf_symbols){s.data,
                                         (size_t)s.size / SYMBOL,
                                         (const char *)names.data,
                                         names.data ? (size_t)names.size : 0,
                                         t->more,
                                         t->n_more};
        }
    }
    return TD_OK;
}

bool td_elf_symbol_at(const struct td_elf_symbols *t, size_t i, struct td_elf_symbol *out)
{
    const uint8_t *e = t->entry + i * SYMBOL;

    *out = (struct td_elf_symbol){string_at(t->names, t->names_len, td_le32(e)), e[4] & 15, e[5], td_le16(e + 6)};
    if (out->section == SHN_XINDEX)
        out->section = i < t->n_more ? td_le32(t->more + i * 4) : 0;
    return out->name != NULL;
}

/* ---- notes ----------------------------------------------------------------------------------- */

static size_t round4(uint32_t n)
{
    return ((size_t)n + 3) & ~(size_t)3;
}

const uint8_t *td_elf_note_find(const struct td_elf_section *s, const char *owner, uint32_t type, size_t *len)
{
    const uint8_t *p = s->data;
    size_t left = p ? (size_t)s->size : 0;

    while (left >= 12) {
        uint32_t name = td_le32(p), desc = td_le32(p + 4);
        size_t head = 12 + round4(name);

        if (head > left || desc > left - head)
            return NULL;
        if (td_le32(p + 8) == type && name == strlen(owner) + 1 && !memcmp(p + 12, owner, name)) {
            *len = desc;
            return p + head;
        }
        head += round4(desc);
        head = head < left ? head : left;
        p += head;
        left -= head;
    }
    return NULL;
}
