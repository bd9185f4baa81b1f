/* torch_schema.c - read an operator's schema.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A reader of one pass; *at moves over the text. */
#include "recorder/tap/torch/torch_schema.h"

#include <string.h>

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " \t\n");
}

/* Step over the character if it comes next. */
static bool take(const char **at, char c)
{
    skip_blanks(at);
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static size_t word_length(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
}

/* Copy the next word, of size bytes at most with its NUL. False: there is none, or it is longer. */
static bool take_word(const char **at, char *word, size_t size)
{
    size_t n;

    skip_blanks(at);
    n = word_length(*at);
    if (!n || n >= size)
        return false;
    memcpy(word, *at, n);
    word[n] = '\0';
    *at += n;
    return true;
}

static enum tap_torch_type type_named(const char *word)
{
    static const struct { const char *word; enum tap_torch_type type; } types[] = {
        {"Tensor", TAP_TORCH_TENSOR}, {"int", TAP_TORCH_INT},   {"SymInt", TAP_TORCH_INT},
        {"float", TAP_TORCH_FLOAT},   {"bool", TAP_TORCH_BOOL}, {"ScalarType", TAP_TORCH_DTYPE},
        {"str", TAP_TORCH_TEXT},
    };
    size_t i;

    for (i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(word, types[i].word))
            return types[i].type;
    return TAP_TORCH_OTHER;
}

/* Step over "(a!)", "(a -> *)": what an argument shares its memory with. */
static bool read_alias(const char **at, bool *written)
{
    size_t n;

    if (!take(at, '('))
        return true;
    n = strcspn(*at, ")");
    *written = *written || memchr(*at, '!', n);
    *at += n;
    return take(at, ')');
}

/* A type with all that may stand behind it: "Tensor(a!)?", "Tensor!?", "int[3]?". */
static bool read_type(const char **at, struct tap_torch_arg *arg)
{
    char word[96];

    if (!take_word(at, word, sizeof word) || !read_alias(at, &arg->written))
        return false;
    arg->type = type_named(word);
    for (;;) {
        if (take(at, '!')) {
            arg->written = true;
        } else if (take(at, '?')) {
            arg->optional = true;
        } else if (take(at, '[')) {
            arg->list = true;
            *at += strspn(*at, "0123456789");
            if (!take(at, ']'))
                return false;
        } else {
            return true;
        }
    }
}

/* Step over a default value: "=None", "=1e-5", "=[1, 2]", "=\"auto\"". */
static bool skip_default(const char **at)
{
    if (!take(at, '='))
        return true;
    skip_blanks(at);
    if (**at == '"' || **at == '\'') {
        const char quote = *(*at)++;
        const char *end = strchr(*at, quote);

        *at = end ? end + 1 : *at + strlen(*at);
        return end != NULL;
    }
    if (**at == '[')
        *at += strcspn(*at, "]");
    *at += strcspn(*at, ",)");
    return **at != '\0';
}

static bool read_arg(const char **at, struct tap_torch_arg *arg)
{
    memset(arg, 0, sizeof *arg);
    return read_type(at, arg) && take_word(at, arg->name, sizeof arg->name) && skip_default(at);
}

static bool read_args(const char **at, struct tap_torch_schema *s)
{
    if (!take(at, '('))
        return false;
    if (take(at, ')'))
        return true;
    do {
        if (take(at, '*'))            /* what follows is given by keyword only: a value all the same */
            continue;
        if (s->n_args == TAP_TORCH_ARGS || !read_arg(at, &s->arg[s->n_args]))
            return false;
        s->n_args++;
    } while (take(at, ','));
    return take(at, ')');
}

/* "-> Tensor", "-> (Tensor, Tensor)", "-> ()", "-> Tensor(a!) out" */
static bool read_results(const char **at, struct tap_torch_schema *s)
{
    struct tap_torch_arg first = {.type = TAP_TORCH_OTHER}, result;
    char name[TAP_TORCH_ARG_NAME];
    bool several;

    if (!take(at, '-') || !take(at, '>'))
        return false;
    several = take(at, '(');
    if (several && take(at, ')'))
        return true;
    do {
        memset(&result, 0, sizeof result);
        if (!read_type(at, &result))
            return false;
        take_word(at, name, sizeof name); /* a result may have a name */
        first = s->n_results++ ? first : result;
    } while (several && take(at, ','));
    s->returns_tensor = s->n_results == 1 && first.type == TAP_TORCH_TENSOR && !first.optional &&
                        !first.list;
    return !several || take(at, ')');
}

bool tap_torch_schema_read(const char *text, struct tap_torch_schema *s)
{
    const char *name = strstr(text, "::"), *at = text;

    memset(s, 0, sizeof *s);
    if (name && name < text + strcspn(text, "("))
        at = name + 2;
    return take_word(&at, s->name, sizeof s->name) && read_args(&at, s) && read_results(&at, s) &&
           !at[strspn(at, " \t\n")];
}

int tap_torch_schema_arg(const struct tap_torch_schema *s, const char *name)
{
    int i;

    for (i = 0; i < s->n_args; i++)
        if (!strcmp(s->arg[i].name, name))
            return i;
    return -1;
}
