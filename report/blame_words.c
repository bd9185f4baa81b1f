/* blame_words.c - which ops are bad, and the first of them, in words: for the text and for
 * Markdown. SPDX-License-Identifier: Apache-2.0 */
#include "report/blame_words.h"

#include <string.h>

#include "report/parts.h"
#include "report/text.h"

/* ---- which ----------------------------------------------------------------------------------- */

void td_blame_add_rule(const cJSON *report, struct td_buf *words)
{
    const cJSON *blame = td_json_get(report, "blame"), *ops = td_json_get(report, "ops");
    const long long bad = td_json_get_i64(blame, "bad", 0),
                    good = td_json_get_i64(blame, "good", 0),
                    bad_hit = td_json_get_i64(blame, "bad_hit", 0),
                    good_hit = td_json_get_i64(blame, "good_hit", 0);
    const bool some_undecided = td_json_get_i64(ops, "undecided", 0) + td_json_get_i64(ops, "broken", 0) +
                                td_json_get_i64(blame, "unsure", 0) > 0;
    const char *pattern = td_part_str(blame, "pattern"), *also;
    const cJSON *same = cJSON_GetArrayItem(td_json_get(blame, "same"), 0);

    also = cJSON_IsString(same) ? same->valuestring : NULL;
    if (good == 0)
        td_buf_addf(words, "every op %sis bad (%lld)", some_undecided ? "that could be decided " : "", bad);
    else if (strcmp(pattern, "every op") == 0)
        td_buf_addf(words, "no simple rule separates %lld bad ops from %lld good ones", bad, good);
    else
        td_buf_addf(words, "%s: %lld of %lld bad ops, %lld of %lld good ones", pattern, bad_hit,
                    bad, good_hit, good);
    if (also && good)
        td_buf_addf(words, "; as well: %s", also);
}

/* The words of a shape behind its sizes: "b4 g128" of "640x256 b4 g128", "Q4_1" of "Q4_1 640x256".
 */
static void add_format(struct td_buf *out, const char *kind, const char *shape)
{
    const char *p = shape;

    td_buf_adds(out, kind);
    while (*p) {
        const size_t n = strcspn(p, " "), digits = strspn(p, "0123456789");

        if (n && !(digits && digits < n && p[digits] == 'x' &&
                   strspn(p + digits + 1, "0123456789") == n - digits - 1))
            td_buf_addf(out, " %.*s", (int)n, p);
        p += n + (p[n] == ' ');
    }
}

static void add_layers(struct td_buf *out, const cJSON *layers)
{
    const cJSON *name;

    cJSON_ArrayForEach(name, layers) td_buf_addf(out, "%s%s", out->len ? "," : "",
                                                 cJSON_IsString(name) ? name->valuestring : "?");
    if (!out->len)
        td_buf_adds(out, "?");
}

/* "1-28", "4"; "-" for a kind without this size. */
static void add_range(struct td_buf *out, const cJSON *row, const char *lo_key, const char *hi_key)
{
    const long long lo = td_json_get_i64(row, lo_key, -1), hi = td_json_get_i64(row, hi_key, -1);

    if (hi < 0)
        td_buf_adds(out, "-");
    else if (lo == hi)
        td_buf_addf(out, "%lld", lo);
    else
        td_buf_addf(out, "%lld-%lld", lo, hi);
}

/* "0.98 -> Inf"; "? -> 71.5" where the old error is not known. */
static void add_error(struct td_buf *out, const cJSON *row)
{
    char was[TD_TEXT_NUMBER], now[TD_TEXT_NUMBER];

    if (!*td_part_str(row, "of")) {
        td_buf_adds(out, td_part_str(row, "why"));
        return;
    }
    td_text_number(td_json_get(row, "old_error"), was);
    td_text_number(td_json_get(row, "new_error"), now);
    td_buf_addf(out, "%s -> %s", was, now);
}

/* "4"; "2 (column)" where not one element, but the rms of a part is over the limit. */
static void add_limit(struct td_buf *out, const cJSON *row)
{
    const char *of = td_part_str(row, "of");
    char limit[TD_TEXT_NUMBER];

    td_text_number(td_json_get(row, "limit"), limit);
    if (!*of)
        return;
    td_buf_adds(out, limit);
    if (strcmp(of, "element") != 0)
        td_buf_addf(out, " (%s)", of);
}

const char *td_blame_column(int column)
{
    static const char *const NAMES[TD_BLAME_COLUMNS] = {
        "kernel", "layer", "M", "N", "K", "bad/all", "error old -> new", "limit"};

    return NAMES[column];
}

void td_blame_add_cell(const cJSON *row, int column, struct td_buf *out)
{
    switch (column) {
    case 0:
        add_format(out, td_part_str(row, "kind"), td_part_str(row, "shape"));
        break;
    case 1:
        add_layers(out, td_json_get(row, "layers"));
        break;
    case 2:
        add_range(out, row, "m_min", "m_max");
        break;
    case 3:
        add_range(out, row, "n", "n");
        break;
    case 4:
        add_range(out, row, "k", "k");
        break;
    case 5:
        td_buf_addf(out, "%lld/%lld", (long long)td_json_get_i64(row, "bad", 0),
                    (long long)td_json_get_i64(row, "judged", 0));
        break;
    case 6:
        add_error(out, row);
        break;
    default:
        add_limit(out, row);
    }
}

/* ---- first ----------------------------------------------------------------------------------- */

static void add_place(struct td_buf *words, const cJSON *blame)
{
    const cJSON *among = td_json_get(blame, "among"), *name;
    const char *prompt = td_part_str(blame, "prompt_id");
    const long long position = td_json_get_i64(blame, "position", -1);
    int n = 0;

    if (*prompt) {
        td_buf_addf(words, "; %s prompt %s",
                    td_json_get_bool(blame, "reading", false) ? "reading" : "answering", prompt);
        if (position >= 0)
            td_buf_addf(words, " at position %lld", position);
    } else if (cJSON_GetArraySize(among)) {
        td_buf_adds(words, "; of prompts");
        cJSON_ArrayForEach(name, among) if (n++ < 3 && cJSON_IsString(name))
            td_buf_addf(words, "%s %s", n > 1 ? "," : "", name->valuestring);
        td_buf_adds(words, n > 3 ? " ..." : "");
    }
    if (td_json_get_bool(blame, "padding", false)) {
        td_buf_adds(words, "; in a row of padding, which is no prompt's");
        n++;
    }
    if ((*prompt || n) && td_json_get_bool(blame, "inferred", false))
        td_buf_adds(words, " (inferred)");
}

/* Is the op named because its runs differ? Then no row is at fault: the reason counts what varies,
 * and the place of the largest error has no meaning. */
static bool is_about_repeats(const cJSON *op)
{
    static const char BEGIN[] = "unstable:";

    return !strncmp(td_part_str(op, "why"), BEGIN, sizeof BEGIN - 1);
}

void td_blame_add_first(const cJSON *blame, struct td_buf *words)
{
    const cJSON *op = td_json_get(blame, "first"), *now = td_json_get(op, "candidate");
    const char *kind = td_part_str(op, "kind"), *kernel = td_part_str(op, "kernel");

    if (!cJSON_IsObject(op))
        return;
    td_buf_addf(words, "op %lld  %s", (long long)td_json_get_i64(op, "op", 0),
                td_json_get_str(op, "layer", "unknown layer"));
    if (td_json_get_i64(op, "rank", -1) >= 0)
        td_buf_addf(words, " of rank %lld", (long long)td_json_get_i64(op, "rank", -1));
    td_buf_addf(words, "  %s", *kernel ? kernel : kind);
    if (td_json_get_i64(op, "m", -1) >= 0)
        td_buf_addf(words, "  M=%lld", (long long)td_json_get_i64(op, "m", -1));
    if (td_json_get_i64(op, "n", -1) >= 0 && td_json_get_i64(op, "k", -1) >= 0)
        td_buf_addf(words, " N=%lld K=%lld", (long long)td_json_get_i64(op, "n", -1),
                    (long long)td_json_get_i64(op, "k", -1));
    add_place(words, blame);
    td_buf_addf(words, "; %s", td_part_str(op, "why"));
    if (!is_about_repeats(op) && td_json_get_i64(now, "row_at", -1) >= 0 &&
        td_json_get_i64(now, "col_at", -1) >= 0)
        td_buf_addf(words, "; worst row %lld, column %lld",
                    (long long)td_json_get_i64(now, "row_at", -1),
                    (long long)td_json_get_i64(now, "col_at", -1));
}
