/* lanes.c - the table of all lanes, and which of them a command line asks for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lanes.h"

#include <stdio.h>
#include <string.h>

#define LANE(ID, name) extern const struct td_lane_type td_lane_##name;
#include "differ/lanes.def"
#undef LANE

const struct td_lane_type *const td_lane_types[TD_N_LANES] = {
#define LANE(ID, name) [TD_LANE_##ID] = &td_lane_##name,
#include "differ/lanes.def"
#undef LANE
};

const char *td_lanes_list(const char *separator, char out[TD_LANES_LIST_MAX])
{
    size_t len = 0;
    int i;

    out[0] = '\0';
    for (i = 0; i < TD_N_LANES && len < TD_LANES_LIST_MAX; i++)
        len += (size_t)snprintf(out + len, TD_LANES_LIST_MAX - len, "%s%s", i ? separator : "",
                                td_lane_name((enum td_lane_id)i));
    return out;
}

/* Is the text of len bytes this word? */
static bool is_word(const char *word, const char *text, size_t len)
{
    return strlen(word) == len && strncmp(word, text, len) == 0;
}

/* The lane of this name; TD_N_LANES: there is none. */
static int find_lane(const char *name, size_t len)
{
    int i = 0;

    while (i < TD_N_LANES && !is_word(td_lane_name((enum td_lane_id)i), name, len))
        i++;
    return i;
}

int td_lanes_ask(struct td_lane lanes[TD_N_LANES], const char *list, struct td_error *err)
{
    char known[TD_LANES_LIST_MAX];
    const char *p = list, *end;
    int i;

    if (p && !*p)
        return td_fail(err, TD_EINVAL, "--lanes is empty; name some of %s, or leave the option out",
                       td_lanes_list(", ", known));
    for (; p && *p; p = *end ? end + 1 : end) {
        end = strchrnul(p, ',');
        i = find_lane(p, (size_t)(end - p));
        if (i == TD_N_LANES)
            return td_fail(err, TD_EINVAL, "--lanes: \"%.*s\" is none of %s", (int)(end - p), p,
                           td_lanes_list(", ", known));
        lanes[i].asked = lanes[i].by_name = true;
    }
    return TD_OK;
}

int td_lanes_ask_for_replayed(struct td_lane lanes[TD_N_LANES], const char *list,
                              struct td_error *err)
{
    static const struct { const char *word; unsigned what; } WORDS[] = {
        {"answers", TD_REPLAYED_ANSWERS}, {"ops", TD_REPLAYED_OPS}, {"pairs", TD_REPLAYED_PAIRS}};
    const size_t n_words = sizeof WORDS / sizeof WORDS[0];
    const char *p = list, *end;
    size_t w;
    int i;

    for (; p && *p; p = *end ? end + 1 : end) {
        end = strchrnul(p, ',');
        for (w = 0; w < n_words && !is_word(WORDS[w].word, p, (size_t)(end - p)); w++)
            ;
        if (w == n_words)
            return td_fail(err, TD_EINVAL, "--replayed: \"%.*s\" is none of answers, ops, pairs",
                           (int)(end - p), p);
        for (i = 0; i < TD_N_LANES; i++)
            lanes[i].may_join |= WORDS[w].what == TD_REPLAYED_ANSWERS;
        for (i = 0; i < TD_N_LANES; i++)
            if (td_lane_types[i]->judges & WORDS[w].what) {
                lanes[i].asked = true;
                lanes[i].by_name |= !td_lane_types[i]->optional;
            }
    }
    return TD_OK;
}
