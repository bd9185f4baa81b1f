/* kernel_names.c - what the symbol of a GPU's kernel tells.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Of the Itanium C++ ABI's mangling only this is read: "_Z", then "N...E" around the parts of a
 * nested name, each a length and its letters; "I" begins template arguments. */
#include "common/kernel_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUTLASS's matrix products have "gemm" in their names; its attention and its copies do not.
 * Triton's products with experts (vLLM's fused_moe_kernel) have it not. cuBLASLt adds up the parts of a product in splitKreduce_kernel. */
static const char *const products[] = {"gemm",
                                       "Gemm",
                                       "GEMM",
                                       "Marlin",
                                       "machete",
                                       "fused_moe",
                                       "w4a16",
                                       "xmma",
                                       "nvjet",
                                       "gemv",
                                       "splitKreduce",
                                       "reconstruct_exllama"};
static const char *const attention[] = {"flash",     "Flash",     "fmha", "Fmha", "FMHA",
                                        "attention", "Attention", "attn", "Attn"};

/* machete's prepack_B, in a namespace of that name, only brings weights into its layout when they
 * are loaded. */
static const char *const loading[] = {"prepack"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The first of the words that is found in the n letters; NULL: none is. */
static const char *word_in(const char *const *words, size_t n_words, const char *letters, size_t n)
{
    size_t i;

    for (i = 0; i < n_words; i++)
        if (memmem(letters, n, words[i], strlen(words[i])))
            return words[i];
    return NULL;
}

bool td_kernel_is_gemm(const char *symbol)
{
    size_t n = strlen(symbol);

    return strncmp(symbol, "triton_", 7) && !word_in(attention, COUNT(attention), symbol, n) &&
           !word_in(loading, COUNT(loading), symbol, n) &&
           word_in(products, COUNT(products), symbol, n);
}

bool td_kernel_is_attention(const char *symbol)
{
    return word_in(attention, COUNT(attention), symbol, strlen(symbol));
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Read a length and so many letters at *p, and move *p behind them. Returns the letters, *n of
 * them; NULL: there are none. */
static const char *read_part(const char **p, size_t *n)
{
    char *end;
    const char *at = *p;
    unsigned long len;

    if (*at < '1' || *at > '9')
        return NULL;
    len = strtoul(at, &end, 10);
    if (len > strnlen(end, len))
        return NULL;
    *n = len;
    *p = end + len;
    return end;
}

static void append(char *out, size_t n, const char *text, size_t len)
{
    size_t have = strlen(out);

    if (have + len < n) {
        memcpy(out + have, text, len);
        out[have + len] = '\0';
    } else if (n > 4) {
        size_t fits = n - 1 - have < len ? n - 1 - have : len;

        memcpy(out + have, text, fits);
        strcpy(out + n - 4, "...");
    }
}

/* Append the parts of the name at p, up to its arguments. Returns what follows. */
static const char *append_name(const char *p, char *out, size_t n)
{
    const char *part;
    size_t len;

    if (*p == 'N')
        p++;
    while ((part = read_part(&p, &len))) {
        if (len > 8 && !strncmp(part, "_GLOBAL_", 8))
            continue;                  /* an anonymous namespace */
        if (out[0])
            append(out, n, "::", 2);
        append(out, n, part, len);
        if (*p == 'I')
            break;
    }
    return p;
}

/* Append the first name among the arguments that holds a word for a product, and more than that
 * word. */
static void append_argument(const char *p, char *out, size_t n)
{
    const char *part, *word;
    size_t len;

    while (*p) {
        part = read_part(&p, &len);
        if (!part) {
            p++;
            continue;
        }
        word = word_in(products, COUNT(products), part, len);
        if (word && len > strlen(word)) {
            append(out, n, "<", 1);
            append(out, n, part, len);
            append(out, n, ">", 1);
            return;
        }
    }
}

void td_kernel_short_name(const char *symbol, char *out, size_t n)
{
    const char *rest;

    out[0] = '\0';
    if (!strncmp(symbol, "_Z", 2)) {
        rest = append_name(symbol + 2, out, n);
        if (out[0] && !td_kernel_is_gemm(out))
            append_argument(rest, out, n);
    }
    if (!out[0])
        append(out, n, symbol, strlen(symbol));
}
