/* speed_others.c - were two servers timed while other programs left them the same machine?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/speed_others.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "format/host_facts.h"

static double share_of(const struct td_cpu_others *o)
{
    return o->cores / o->of;
}

/* Did so much else run that programs waited for a core? */
static bool is_crowded(const struct td_cpu_others *o, double limit)
{
    return share_of(o) > limit && (o->waited < 0 || o->waited > limit);
}

/* ", and programs waited for a core in 40 % of the time" */
static const char *waited_words(const struct td_cpu_others *o, char out[80])
{
    if (o->waited < 0)
        snprintf(out, 80, ", and how long programs waited for a core is not known");
    else
        snprintf(out, 80, ", and programs waited for a core in %.0f %% of the time", o->waited * 100);
    return out;
}

/* ---- rounds of both servers -------------------------------------------------------------------- */

int td_speed_others_read(const struct td_side *side, size_t n_sides, struct td_speed_block **out, size_t *n)
{
    struct td_speed_block *b = calloc(n_sides + 1, sizeof *b);
    size_t i;

    *n = 0;
    *out = b;
    if (!b)
        return TD_ENOMEM;
    for (i = 0; i < n_sides; i++) {
        if (side[i].role != TD_LIVE && side[i].role != TD_NEW)
            continue;
        b[*n].is_baseline = side[i].role == TD_LIVE;
        b[*n].round = side[i].round;
        b[*n].in_turn = td_json_get_i64(td_json_get(td_fixture_manifest(side[i].fx), "replay"), "turns", 0) > 0;
        td_host_facts_read_others(td_fixture_manifest(side[i].fx), 0, &b[(*n)++].others);
    }
    return TD_OK;
}

static struct td_speed_block *find_block(const struct td_speed *s, int round, bool is_baseline)
{
    size_t i;

    for (i = 0; i < s->n_blocks; i++)
        if (s->block[i].round == round && s->block[i].is_baseline == is_baseline)
            return &s->block[i];
    return NULL;
}

/* Both are known. Returns whether the round is disturbed; then the words say how. */
static bool check_round(const struct td_cpu_others *old, const struct td_cpu_others *now, int round, double limit, char *words, size_t n)
{
    const struct td_cpu_others *crowded = is_crowded(old, limit) ? old : is_crowded(now, limit) ? now : NULL;
    char waited[80] = "";

    if (!crowded && fabs(share_of(old) - share_of(now)) <= limit)
        return false;
    if (crowded)
        waited_words(crowded, waited);
    snprintf(words, n, "in round %d other programs used %.2f of %d cores during the baseline, %.2f during the candidate%s", round + 1,
             old->cores, old->of, now->cores, waited);
    return true;
}

static bool is_in_turn(const struct td_speed *s, int round)
{
    const struct td_speed_block *old = find_block(s, round, true), *now = find_block(s, round, false);

    return old && now && old->in_turn && now->in_turn;
}

void td_speed_others_count_whole(struct td_speed *s)
{
    int round, in_turn = 0;

    for (round = 0; round < s->rounds; round++)
        in_turn += is_in_turn(s, round);
    s->whole = in_turn >= TD_SPEED_ROUNDS_ENOUGH ? s->rounds - in_turn : 0;
}

bool td_speed_others_is_timed(const struct td_speed *s, int round)
{
    const struct td_speed_block *b = find_block(s, round, false);

    return !(b && b->left_out) && (!s->whole || is_in_turn(s, round));
}

void td_speed_others_leave_out(struct td_speed *s, double limit)
{
    int round;

    for (round = 0; round < s->rounds; round++) {
        struct td_speed_block *old = find_block(s, round, true), *now = find_block(s, round, false);
        char words[sizeof s->disturbed];

        if (!old || !now || !td_speed_others_is_timed(s, round))
            continue;
        if (*old->others.unknown || *now->others.unknown) {
            if (!*s->others_unknown)
                snprintf(s->others_unknown, sizeof s->others_unknown, "%s", *old->others.unknown ? old->others.unknown : now->others.unknown);
            continue;
        }
        if (!check_round(&old->others, &now->others, round, limit, words, sizeof words))
            continue;
        old->left_out = now->left_out = true;
        if (!s->left_out++)
            snprintf(s->disturbed, sizeof s->disturbed, "%s", words);
    }
}

/* ---- starts of a recording --------------------------------------------------------------------- */

void td_speed_others_compare_starts(const cJSON *base, const cJSON *now, double limit, struct td_speed *s)
{
    struct td_cpu_others o, start;
    double least = INFINITY, most = -1;
    char waited[80], then[80] = "";
    int i, of;

    if (*s->other_host || !td_json_get(td_json_get(base, "host"), "others"))
        return;
    td_host_facts_read_others(now, 0, &o);
    if (*o.unknown) {
        snprintf(s->others_unknown, sizeof s->others_unknown, "%s", o.unknown);
        return;
    }
    of = o.of;
    for (i = 0; i < (int)s->starts; i++) {
        td_host_facts_read_others(base, i, &start);
        if (*start.unknown)
            continue;
        least = fmin(least, share_of(&start));
        most = fmax(most, share_of(&start));
    }
    if (most >= 0)
        snprintf(then, sizeof then, ", and %.2f to %.2f while the starts were recorded", least * of, most * of);
    if (is_crowded(&o, limit))
        snprintf(s->other_host, sizeof s->other_host, "other programs used %.2f of %d cores%s%s", o.cores, of, then, waited_words(&o, waited));
    else if (most >= 0 && (share_of(&o) > most + limit || share_of(&o) < least - limit))
        snprintf(s->other_host, sizeof s->other_host, "other programs used %.2f of %d cores%s", o.cores, of, then);
}
