/* build_pair.c - start the processes that run the candidate's and the baseline's build.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/build_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/redact_words.h"

#define COMPILE_MS 300000 /* a driver that finds no code for its GPU compiles PTX: 20 s for vLLM's Marlin on an H100 */

static char *const *env_or_null(const struct td_arg_list *env)
{
    return env->n ? (char *const *)env->item : NULL;
}

/* Append "NAME=VALUE", without what is a secret by its name or its form: it goes to the disk and into
 * reports. A text that is too long to be looked at as a whole is left out. */
static size_t add_variable(char *out, size_t n, const char *between, const char *item)
{
    enum td_expect expect = TD_EXPECT_NOTHING;
    char copy[4096];
    const size_t len = strlen(item), name = strcspn(item, "=");

    if (len >= sizeof copy)
        return (size_t)snprintf(out, n, "%s%.*s=...", between, (int)name, item);
    memcpy(copy, item, len + 1);
    td_redact_command_word(&expect, copy, len);
    if (copy[name])
        td_redact_text(copy + name + 1, len - name - 1); /* "Bearer KEY", whatever the name */
    return (size_t)snprintf(out, n, "%s%s", between, copy);
}

/* Name a build for reports: by its own description (else, where --build-env set something, by its
 * provider), followed by what was set for it. */
static void name_build(char *out, size_t n, const char *words, const char *provider, const struct td_arg_list *env)
{
    size_t used = (size_t)snprintf(out, n, "%s", !words[0] && env->n ? provider : words);
    int i;

    for (i = 0; i < env->n && used < n; i++)
        used += add_variable(out + used, n - used, i ? " " : ", with ", env->item[i]);
}

/* Our own kernels as --provider (cpu, ref, simt) concern the candidate alone; any other provider names
 * what both builds are. */
static const char *provider_of(const struct td_replay_options *o, const char *path)
{
    return o->provider && !o->build && path ? NULL : o->provider;
}

int td_build_pair_detect(const struct td_replay_options *o, struct td_build found[2], struct td_error *err)
{
    int rc = td_build_detect(o->build, provider_of(o, o->build), &found[0], err);

    if (!rc && o->as && strcmp(found[0].provider, "torch"))
        rc = td_fail(err, TD_EINVAL,
                     "--as %s: only the Python of a venv with vLLM has operators to choose from, and %s is run by "
                     "provider %s",
                     o->as, o->build, found[0].provider);
    if (rc || !o->baseline_build)
        return rc;
    return td_build_detect(o->baseline_build, provider_of(o, o->baseline_build), &found[1], err);
}

/* Start one build's process, which loads it. r borrows from *found, which must outlive it. */
static int start_build(const struct td_replay_options *o, const char *name, const struct td_arg_list *env,
                       const struct td_build *found, struct td_build_process *r, struct td_error *err)
{
    struct td_build_process_options ro = {.name = name,
                                          .env = env_or_null(env),
                                          .rows = o->ops_variable,
                                          .deadline_ms = (int)(o->deadline_s * 1000),
                                          .guard = o->guard,
                                          .stop = o->stop};

    ro.provider = found->provider;
    ro.arg = found->arg[0] ? found->arg : NULL;
    ro.prepare_ms = strcmp(found->provider, "cuda") && strcmp(found->provider, "torch") ? 0 : COMPILE_MS;
    if (found->script[0]) {
        ro.program = found->arg;
        ro.script = found->script;
    }
    return td_build_process_begin(r, &ro, err);
}

static int begin_builds(const struct td_replay_options *o, struct td_build_pair *b, struct td_error *err)
{
    int rc = td_build_pair_detect(o, b->found, err);

    if (!rc)
        rc = start_build(o, "candidate", &o->build_env, &b->found[0], &b->candidate, err);
    if (!rc && o->baseline_build)
        rc = start_build(o, "baseline", &o->baseline_env, &b->found[1], &b->baseline, err);
    return rc;
}

int td_build_pair_begin(const struct td_replay_options *o, struct td_build_pair **out, struct td_error *err)
{
    struct td_build_pair *b = calloc(1, sizeof *b);
    int rc;

    *out = NULL;
    if (!b)
        return td_fail(err, TD_ENOMEM, "out of memory");
    b->candidate.sock = b->baseline.sock = b->candidate.arena_fd = b->baseline.arena_fd = -1;
    rc = begin_builds(o, b, err);
    if (rc)
        td_build_pair_free(b);
    else
        *out = b;
    return rc;
}

int td_build_pair_await(const struct td_replay_options *o, struct td_build_pair *b, struct td_error *err)
{
    int rc = td_build_process_await(&b->candidate, err);

    if (rc)
        return rc;
    name_build(b->words[0], sizeof b->words[0], b->candidate.build, b->found[0].provider, &o->build_env);
    if (!o->baseline_build)
        return TD_OK;
    rc = td_build_process_await(&b->baseline, err);
    if (rc)
        return rc;
    name_build(b->words[1], sizeof b->words[1], b->baseline.build, b->found[1].provider, &o->baseline_env);
    return TD_OK;
}

void td_build_pair_leave(struct td_build_pair *b)
{
    td_build_process_leave(&b->candidate);
    td_build_process_leave(&b->baseline);
}

void td_build_pair_free(struct td_build_pair *b)
{
    if (!b)
        return;
    td_build_process_stop(&b->candidate);
    td_build_process_stop(&b->baseline);
    free(b);
}
