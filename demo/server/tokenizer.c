/* tokenizer.c - byte-level tokens: read the vocabulary, encode, and decode a stream into UTF-8.
 * SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2 spells a byte as a printable character: 33..126, 161..172 and 174..255 as themselves, the other 68 bytes in ascending
 * order as U+0100, U+0101 ... (source: openai/gpt-2, src/encoder.py, bytes_to_unicode). */
#include "demo/server/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/json.h"

#define MAX_VOCAB 65536
#define MAX_FILE ((size_t)16 << 20)

struct token {
    char *spelling;      /* NULL: the vocabulary has a gap here */
    unsigned char byte;  /* what it stands for, unless special */
    bool special;
};

struct td_tokenizer {
    int size;
    int32_t of_byte[256]; /* every one is set */
    struct token *token;  /* [size] */
};

static bool is_printable(unsigned b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
}

/* The byte that a spelling of one character stands for; -1: none. */
static int byte_of_spelling(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned cp;

    if (u[0] && u[0] < 0x80 && !u[1])
        cp = u[0];
    else if (u[0] >= 0xC2 && u[0] <= 0xDF && u[1] && !u[2])
        cp = (u[0] & 31u) << 6 | (u[1] & 63u);
    else
        return -1;
    if (cp < 256)
        return is_printable(cp) ? (int)cp : -1;
    for (unsigned b = 0, next = 256; b < 256; b++)
        if (!is_printable(b) && next++ == cp)
            return (int)b;
    return -1;
}

static int read_entry(struct td_tokenizer *t, const cJSON *e, struct td_error *err)
{
    int64_t id = td_json_i64(e, -1);
    struct token *tok;
    int byte;

    if (id < 0 || id >= t->size)
        return td_fail(err, TD_ECORRUPT, "the id of token \"%s\" is not in 0..%d", e->string, t->size - 1);
    tok = &t->token[id];
    if (tok->spelling)
        return td_fail(err, TD_ECORRUPT, "two tokens have the id %d", (int)id);
    tok->spelling = strdup(e->string);
    if (!tok->spelling)
        return td_fail(err, TD_ENOMEM, "out of memory");
    byte = byte_of_spelling(e->string);
    tok->special = byte < 0;
    if (byte >= 0) {
        tok->byte = (unsigned char)byte;
        t->of_byte[byte] = (int32_t)id;
    }
    return TD_OK;
}

static int read_vocab(struct td_tokenizer *t, const cJSON *root, struct td_error *err)
{
    const cJSON *model = td_json_get(root, "model"), *vocab = td_json_get(model, "vocab"), *e;

    if (!cJSON_IsObject(vocab))
        return td_fail(err, TD_ECORRUPT, "there is no model.vocab");
    if (cJSON_GetArraySize(td_json_get(model, "merges")) > 0)
        return td_fail(err, TD_EUNSUPPORTED, "the demo server reads byte-level vocabularies without merges only");
    t->size = cJSON_GetArraySize(vocab);
    if (t->size < 256 || t->size > MAX_VOCAB)
        return td_fail(err, TD_EUNSUPPORTED, "a vocabulary of %d tokens (256 to %d are possible)", t->size, MAX_VOCAB);
    t->token = calloc((size_t)t->size, sizeof *t->token);
    if (!t->token)
        return td_fail(err, TD_ENOMEM, "out of memory");
    cJSON_ArrayForEach(e, vocab)
        if (read_entry(t, e, err))
            return err ? err->code : TD_ECORRUPT;
    for (int b = 0; b < 256; b++)
        if (t->of_byte[b] < 0)
            return td_fail(err, TD_EUNSUPPORTED, "no token stands for the byte %d", b);
    return TD_OK;
}

int td_tokenizer_open(struct td_tokenizer **out, const char *dir, struct td_error *err)
{
    char path[TD_PATH_MAX];
    struct td_error own = {0};
    struct td_tokenizer *t = NULL;
    cJSON *root = NULL;
    int rc;

    *out = NULL;
    if (!err)
        err = &own;
    rc = td_fs_join(path, sizeof path, dir, "tokenizer.json", err);
    if (rc)
        return rc;
    root = td_json_load(path, MAX_FILE, err);
    if (!root)
        return err->code;
    t = calloc(1, sizeof *t);
    if (!t) {
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    } else {
        memset(t->of_byte, 0xFF, sizeof t->of_byte);
        rc = read_vocab(t, root, err);
    }
    cJSON_Delete(root);
    if (rc) {
        td_tokenizer_close(t);
        return td_fail_at(err, "%s", path);
    }
    *out = t;
    return TD_OK;
}

void td_tokenizer_close(struct td_tokenizer *t)
{
    if (!t)
        return;
    for (int i = 0; t->token && i < t->size; i++)
        free(t->token[i].spelling);
    free(t->token);
    free(t);
}

int td_tokenizer_size(const struct td_tokenizer *t)
{
    return t->size;
}

/* The special word that the text begins with; -1: none. */
static int32_t special_at(const struct td_tokenizer *t, const char *text, size_t n, size_t *len)
{
    for (int i = 0; i < t->size; i++) {
        if (!t->token[i].special)
            continue;
        *len = strlen(t->token[i].spelling);
        if (*len <= n && memcmp(text, t->token[i].spelling, *len) == 0)
            return i;
    }
    return -1;
}

size_t td_tokenizer_encode(const struct td_tokenizer *t, const char *text, size_t n, int32_t *ids)
{
    size_t count = 0;

    for (size_t i = 0, len; i < n; count++) {
        int32_t special = text[i] == '<' ? special_at(t, text + i, n - i, &len) : -1;
        ids[count] = special >= 0 ? special : t->of_byte[(unsigned char)text[i]];
        i += special >= 0 ? len : 1;
    }
    return count;
}

int32_t td_tokenizer_special(const struct td_tokenizer *t, const char *word)
{
    for (int i = 0; i < t->size; i++)
        if (t->token[i].special && strcmp(t->token[i].spelling, word) == 0)
            return i;
    return -1;
}

bool td_tokenizer_is_special(const struct td_tokenizer *t, int32_t id)
{
    return t->token[id].special;
}

const char *td_tokenizer_bytes(const struct td_tokenizer *t, int32_t id, size_t *n)
{
    const struct token *tok = &t->token[id];

    *n = tok->special ? strlen(tok->spelling) : 1;
    return tok->special ? tok->spelling : (const char *)&tok->byte;
}

const char *td_tokenizer_spelling(const struct td_tokenizer *t, int32_t id)
{
    return t->token[id].spelling;
}

/* The length of the bad bytes at s: the longest prefix of a character, at least 1. */
static size_t bad_prefix(const char *s, size_t n)
{
    for (size_t len = n < 3 ? n : 3; len > 1; len--)
        if (td_utf8_seq(s, len) == -1)
            return len;
    return 1;
}

void td_detok_add(struct td_detok *d, const char *bytes, size_t n, struct td_buf *out)
{
    while (n > 0 || d->n_held > 0) {
        char four[4];
        size_t have = (size_t)d->n_held, fresh, used;
        int seq;

        memcpy(four, d->held, have);
        fresh = n < sizeof four - have ? n : sizeof four - have;
        memcpy(four + have, bytes, fresh);
        seq = td_utf8_seq(four, have + fresh);
        if (seq == -1) { /* the beginning of a character, which holds all input */
            memcpy(d->held, four, have + fresh);
            d->n_held = (int)(have + fresh);
            return;
        }
        used = seq > 0 ? (size_t)seq : bad_prefix(four, have + fresh);
        if (seq > 0)
            td_buf_add(out, four, used);
        else
            td_buf_adds(out, "\xEF\xBF\xBD");
        if (used >= have) {
            bytes += used - have;
            n -= used - have;
            d->n_held = 0;
        } else { /* some of the held bytes stay */
            memmove(d->held, d->held + used, have - used);
            d->n_held = (int)(have - used);
        }
    }
}
