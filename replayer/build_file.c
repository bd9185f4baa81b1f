/* build_file.c - can this file be a build at all? Looks at its bytes; nothing of it is executed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: System V gABI, chapters 4 and 5 (ELF header, program headers, dynamic section). */
#include "replayer/build_file.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

#include "kernels/gpucode/elf.h"

#define TEXT_BYTES 4096
#define MAX_SEGMENTS 4096

#if defined(__x86_64__)
#define THIS_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define THIS_MACHINE EM_AARCH64
#elif defined(__riscv)
#define THIS_MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define THIS_MACHINE EM_PPC64
#elif defined(__s390x__)
#define THIS_MACHINE EM_S390
#else
#define THIS_MACHINE EM_NONE /* not known: no library is called foreign */
#endif

/* Has a file of type ET_DYN an entry that is started as a program? It names an interpreter (a library may
 * do so too, as libc does) and says in its dynamic section that it is a program (DF_1_PIE). */
static bool is_started_as_program(const uint8_t *d, size_t n)
{
    Elf64_Ehdr h;
    bool interpreter = false, pie = false;
    unsigned i;

    memcpy(&h, d, sizeof h);
    for (i = 0; i < h.e_phnum && i < MAX_SEGMENTS && h.e_phentsize == sizeof(Elf64_Phdr); i++) {
        Elf64_Phdr p;
        Elf64_Dyn entry;
        uint64_t at;

        if (h.e_phoff > n || n - h.e_phoff < (i + 1) * sizeof p)
            break;
        memcpy(&p, d + h.e_phoff + i * sizeof p, sizeof p);
        interpreter |= p.p_type == PT_INTERP;
        if (p.p_type != PT_DYNAMIC || p.p_offset > n || p.p_filesz > n - p.p_offset)
            continue;
        for (at = 0; at + sizeof entry <= p.p_filesz; at += sizeof entry) {
            memcpy(&entry, d + p.p_offset + at, sizeof entry);
            pie |= entry.d_tag == DT_FLAGS_1 && entry.d_un.d_val & DF_1_PIE;
        }
    }
    return interpreter && pie;
}

static enum td_build_file elf_kind(const uint8_t *d, size_t n)
{
    uint16_t type, machine;

    if (n < sizeof(Elf64_Ehdr))
        return TD_FILE_OTHER;
    type = td_le16(d + 16);
    machine = td_le16(d + 18);
    if (machine == TD_ELF_CUDA || machine == TD_ELF_AMDGPU)
        return TD_FILE_GPU_CODE;
    if (type == ET_REL)
        return TD_FILE_OBJECT;
    if (type == ET_CORE)
        return TD_FILE_CORE;
    if (type == ET_EXEC)
        return TD_FILE_PROGRAM;
    if (type != ET_DYN)
        return TD_FILE_OTHER;
    if (d[EI_CLASS] != ELFCLASS64 || d[EI_DATA] != ELFDATA2LSB || (THIS_MACHINE != EM_NONE && machine != THIS_MACHINE))
        return TD_FILE_FOREIGN;
    return is_started_as_program(d, n) ? TD_FILE_PROGRAM : TD_FILE_LIBRARY;
}

static bool is_text(const uint8_t *d, size_t n)
{
    size_t i;

    for (i = 0; i < n && i < TEXT_BYTES; i++)
        if (d[i] < 9 || (d[i] > 13 && d[i] < 32 && d[i] != 27) || d[i] == 127)
            return false;
    return true;
}

static bool begins(const uint8_t *d, size_t n, const char *with, size_t len)
{
    return n >= len && !memcmp(d, with, len);
}

enum td_build_file td_build_file_kind(const void *data, size_t n)
{
    const uint8_t *d = data;

    if (!n)
        return TD_FILE_EMPTY;
    if (td_elf_is(d, n))
        return elf_kind(d, n);
    if (begins(d, n, "\x50\xed\x55\xba", 4) || begins(d, n, "__CLANG_OFFLOAD_BUNDLE__", 24))
        return TD_FILE_GPU_CODE;
    if (begins(d, n, "!<arch>\n", 8))
        return TD_FILE_ARCHIVE;
    if (begins(d, n, "PK\3\4", 4))
        return TD_FILE_ZIP;
    if (begins(d, n, "#!", 2))
        return TD_FILE_SCRIPT;
    return is_text(d, n) ? TD_FILE_TEXT : TD_FILE_OTHER;
}

const char *td_build_file_words(enum td_build_file kind)
{
    static const char *const words[] = {
        [TD_FILE_LIBRARY] = "a library",
        [TD_FILE_FOREIGN] = "a library for another kind of machine than this one",
        [TD_FILE_GPU_CODE] = "GPU code",
        [TD_FILE_PROGRAM] = "a program, not a library",
        [TD_FILE_SCRIPT] = "a script, not a library",
        [TD_FILE_EMPTY] = "an empty file",
        [TD_FILE_TEXT] = "a text file",
        [TD_FILE_OBJECT] = "an object file that no library holds yet: link it with -shared",
        [TD_FILE_ARCHIVE] = "a static library: link it with -shared",
        [TD_FILE_ZIP] = "a zip archive (a wheel?): unpack it",
        [TD_FILE_CORE] = "a core dump",
        [TD_FILE_OTHER] = "neither a library nor GPU code",
    };

    return words[kind];
}

bool td_build_file_is_python(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return !strncmp(name, "python", 6) || !strncmp(name, "pypy", 4);
}
