/* json.h - read JSON with cJSON without losing data, and write JSON as a stream.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reading. cJSON 1.7 cuts strings at \u0000, turns large integers into doubles, accepts bad UTF-8
 * and stops at the NaN that Python writes. td_json_parse() rewrites the text first, so that nothing
 * is lost:
 *   \u0000                  -> the two bytes C0 80 inside the string (td_json_get_bytes turns them back)
 *   integers beyond 2^53    -> a string C0 81 + digits (td_json_get_i64 reads it, the writer prints the digits)
 *   NaN Infinity -Infinity  -> a string C0 82 + the word (td_json_get_num gives NaN or Inf, the
 *   writer prints "NaN")
 *   bytes that are not UTF-8-> U+FFFD (counted); C0 80..82 can therefore come from nowhere else
 * Trees are walked with cJSON's own functions and freed with cJSON_Delete. */
#ifndef TD_COMMON_JSON_H
#define TD_COMMON_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define TD_JSON_MAX_BYTES ((size_t)1 << 30)
#define TD_JSON_MAX_DEPTH 200

/* Parse exactly n bytes (blanks may follow the value, nothing else). NULL + TD_ECORRUPT with the
 * offset of the fault; TD_ENOMEM: the tree would be larger than memory.h allows one record. */
cJSON *td_json_parse(const char *text, size_t n, struct td_error *err);
/* Is there room (memory.h) for what cJSON's own parser makes of n bytes? TD_ENOMEM. */
int td_json_room(const char *text, size_t n, struct td_error *err);
/* td_json_parse() of a file of at most max bytes that the user named, for one that is found under a
 * fixed name (no pipe and no device: td_fs_open_regular()), and for one of a fixture. */
cJSON *td_json_load(const char *path, size_t max, struct td_error *err);
cJSON *td_json_load_regular(const char *path, size_t max, struct td_error *err);
cJSON *td_json_load_member(const char *path, size_t max, struct td_error *err);

/* Members of an object, or the fallback when obj is NULL, the member is missing or of another type. */
const cJSON *td_json_get(const cJSON *obj, const char *key);
const char *td_json_get_str(const cJSON *obj, const char *key, const char *missing); /* C string; NULs still coded */
double td_json_get_num(const cJSON *obj, const char *key, double missing);
int64_t td_json_get_i64(const cJSON *obj, const char *key, int64_t missing);        /* number or string of digits */
bool td_json_get_bool(const cJSON *obj, const char *key, bool missing);
double td_json_num(const cJSON *v, double missing);
cJSON *td_json_new_num(double v); /* a number, or "NaN", "Infinity", "-Infinity"; owned by the caller */
int64_t td_json_i64(const cJSON *v, int64_t missing);
/* Append the string's real bytes (NULs included) to out. TD_ENOTFOUND: no such string. */
int td_json_get_bytes(const cJSON *obj, const char *key, struct td_buf *out);
int td_json_bytes(const cJSON *v, struct td_buf *out);

/* Writing: a pretty or compact stream into a buffer. Commas are placed by the writer; key is NULL inside arrays.
 *     struct td_jw w;  td_jw_init(&w, &buf, false);
 *     td_jw_obj(&w, NULL);  td_jw_str(&w, "text", s, n);  td_jw_end(&w);
 * Failures show in buf.failed. Doubles print shortest and exact; NaN and Inf as the strings "NaN", "Infinity",
 * "-Infinity"; strings are UTF-8, bad bytes become U+FFFD, NUL becomes \u0000. */
struct td_jw {
    struct td_buf *out;
    bool pretty;
    int depth;
    char first[TD_JSON_MAX_DEPTH]; /* per level: nothing written yet */
    char close[TD_JSON_MAX_DEPTH]; /* per level: '}' or ']' */
};
void td_jw_init(struct td_jw *w, struct td_buf *out, bool pretty);
void td_jw_obj(struct td_jw *w, const char *key);
void td_jw_arr(struct td_jw *w, const char *key);
void td_jw_end(struct td_jw *w);
void td_jw_i32s(struct td_jw *w, const char *key, const int32_t *v, int n); /* an array of n integers */
void td_jw_str(struct td_jw *w, const char *key, const char *s, size_t n);
void td_jw_cstr(struct td_jw *w, const char *key, const char *s);   /* NULL writes null */
void td_jw_i64(struct td_jw *w, const char *key, int64_t v);        /* a number within +-2^53, else a string of digits */
void td_jw_num(struct td_jw *w, const char *key, double v);
void td_jw_num_or_null(struct td_jw *w, const char *key, double v); /* NaN writes null */
void td_jw_bool(struct td_jw *w, const char *key, bool v);
void td_jw_null(struct td_jw *w, const char *key);
void td_jw_value(struct td_jw *w, const char *key, const cJSON *v); /* a tree of td_json_parse() */

/* Copy n bytes as UTF-8 into out: bad sequences become U+FFFD. Returns how many were replaced. */
size_t td_utf8_clean(const char *s, size_t n, struct td_buf *out);
/* Length 1..4 of the valid UTF-8 sequence at s (n bytes left), 0 if invalid, -1 if it is a valid beginning cut short. */
int td_utf8_seq(const char *s, size_t n);

#endif
