/* op_variety_notes.c - say which faults no recorded op could show.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/op_variety_notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "format/m_class.h"

#define MOST_KINDS 16
#define LEAST_TILE 64       /* tiles of fewer columns are not counted */
#define MOST_TILE 256
#define F16_MAX 65504.0
/* vLLM's gptq_gemm adds four products a * (q - zero) of 4 bits in float16 before it scales them (dot22_8_f in
 * q_gemm.cu): they overflow when |a| comes to this. */
#define F16_MAX_A (F16_MAX / (4 * 8))

static bool is(const cJSON *kind, const char *name, const char *value)
{
    return !strcmp(td_json_get_str(kind, name, ""), value);
}

/* "not shown in gptq_gemm: ..." */
__attribute__((format(printf, 3, 4)))
static void note(struct td_lane *lane, const cJSON *kind, const char *fmt, ...)
{
    char text[320];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    td_lane_note(lane, TD_NOT_JUDGED, "not shown in %.60s: %s", td_json_get_str(kind, "kind", ""), text);
}

static void note_weights(struct td_lane *lane, const cJSON *k)
{
    const int64_t zero = td_json_get_i64(k, "zero_point", -1);
    char value[32];

    snprintf(value, sizeof value, "%lld", (long long)zero);
    if (is(k, "zero_points", "equal"))
        note(lane, k, "faults in zero points, %s%s (record AWQ, or GPTQ with sym false)",
             zero < 0 ? "those of a weight are equal" : "all are ", zero < 0 ? "" : value);
    if (is(k, "scales", "equal"))
        note(lane, k, "a scale taken for another, those of a weight are equal (record a trained checkpoint)");
    if (is(k, "order", "of groups"))
        note(lane, k, "faults in g_idx, no weight is in act-order (record GPTQ with desc_act true)");
}

/* The largest power of two, of at most MOST_TILE, that divides all sizes. 0: it is less than LEAST_TILE. */
static int largest_tile(int64_t divisor)
{
    int tile = MOST_TILE;

    while (tile >= LEAST_TILE && (divisor <= 0 || divisor % tile))
        tile /= 2;
    return tile >= LEAST_TILE ? tile : 0;
}

static void note_sizes(struct td_lane *lane, const cJSON *k)
{
    const int n = largest_tile(td_json_get_i64(k, "n_divisor", 0)), depth = largest_tile(td_json_get_i64(k, "k_divisor", 0));
    const bool is_ggml = !strncmp(td_json_get_str(k, "kind", ""), "ggml_", 5); /* its servers split no layer */
    char sizes[80];

    if (n && depth)
        snprintf(sizes, sizeof sizes, "all N are multiples of %d, all K of %d", n, depth);
    else
        snprintf(sizes, sizeof sizes, "all %s are multiples of %d", n ? "N" : "K", n ? n : depth);
    if (n || depth)
        note(lane, k, "faults in a smaller last tile, %s (record another %smodel)", sizes,
             is_ggml ? "" : "--tensor-parallel-size, or ");
}

/* Kernels are known to change their path by M. Which of these paths had no op? */
static void note_rows(struct td_lane *lane, const cJSON *k)
{
    const cJSON *seen = td_json_get(k, "m_classes"), *one;
    char absent[120] = "";
    size_t len = 0;
    bool came;
    int i;

    for (i = 0; i < TD_M_CLASSES && cJSON_IsArray(seen); i++) {
        came = false;
        cJSON_ArrayForEach(one, seen)
            came |= cJSON_IsString(one) && !strcmp(one->valuestring, td_m_class_name(i));
        if (!came)
            len += (size_t)snprintf(absent + len, sizeof absent - len, "%s%s", len ? ", " : "", td_m_class_name(i));
    }
    if (len)
        note(lane, k, "paths for %s (record more requests at once, and longer prompts)", absent);
}

static void note_overflow(struct td_lane *lane, const cJSON *k)
{
    const double a = td_json_get_num(k, "largest_a", 0), sum = td_json_get_num(k, "largest_sum", 0);

    if (a > 0 && a < F16_MAX_A)
        note(lane, k, "overflow of float16, no activation is over %.3g (record all layers, and real prompts)", a);
    if (sum > 0 && sum < F16_MAX)
        note(lane, k, "overflow of float16, no |A||W| is over %.3g (record all layers, and real prompts)", sum);
}

static void note_experts(struct td_lane *lane, const cJSON *k)
{
    const int64_t all = td_json_get_i64(k, "experts", 0), routed = td_json_get_i64(k, "routed", 0);

    if (routed >= 0 && routed < all)
        note(lane, k, "faults in the weights of %lld of %lld experts, which got no row (record more prompts)",
             (long long)(all - routed), (long long)all);
}

void td_op_variety_notes(const cJSON *variety, struct td_lane *lane)
{
    const cJSON *k;
    int n = 0;

    if (!cJSON_IsArray(variety))
        return;
    cJSON_ArrayForEach(k, variety) {
        if (!*td_json_get_str(k, "kind", "") || ++n > MOST_KINDS)
            continue;
        note_weights(lane, k);
        note_sizes(lane, k);
        note_rows(lane, k);
        note_overflow(lane, k);
        note_experts(lane, k);
    }
    if (n > MOST_KINDS)
        td_lane_note(lane, TD_NOT_JUDGED, "what %d more kinds of op do not show was not looked at", n - MOST_KINDS);
}
