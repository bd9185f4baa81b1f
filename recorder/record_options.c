/* record_options.c - read the options of `record` that are texts, and check them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/record_options.h"

#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "recorder/tap_client/layer_filter.h"
#include "recorder/tap_client/server_env.h"
#include "wire/scores.h"
#include "wire/suite.h"

#define FLIGHT_MIB 256

int td_record_options_gemms(const char *text, struct td_record_options *opt, struct td_error *err)
{
    char *end;
    double percent = strtod(text, &end);

    opt->mode.steps = TD_TAP_CLIENT_SAMPLE;
    opt->mode.percent = 0;
    opt->mode.time_ppm = 0;
    opt->gemms_required = false;
    if (!strcmp(text, "auto")) {
        opt->mode.time_ppm = TD_TAP_CLIENT_AUTO_TIME_PPM;
        return TD_OK;
    }
    if (!strcmp(text, "off")) {
        opt->mode.steps = TD_TAP_CLIENT_OFF;
        return TD_OK;
    }
    opt->gemms_required = true;
    if (!strcmp(text, "all")) {
        opt->mode.steps = TD_TAP_CLIENT_ALL;
        return TD_OK;
    }
    if (end == text || strcmp(end, "%") || !(percent > 0 && percent <= 100))
        return td_fail(err, TD_EINVAL,
                       "--gemms %s: give auto, off, all, or a share of steps such as 10%%", text);
    opt->mode.percent = percent;
    return TD_OK;
}

int td_record_options_scores(const char *text, struct td_record_options *opt, struct td_error *err)
{
    char *end;

    opt->scores = !strcmp(text, "on") ? TD_SCORES_PROMPTS : 0;
    if (!strcmp(text, "on") || !strcmp(text, "off"))
        return TD_OK;
    opt->scores = strtoll(text, &end, 10);
    if (end == text || *end || opt->scores < 1 || opt->scores > TD_SUITE_MAX_PROMPTS)
        return td_fail(err, TD_EINVAL, "--scores %s: give on, off, or how many answers, 1 to %d",
                       text, TD_SUITE_MAX_PROMPTS);
    return TD_OK;
}

int td_record_options_graphs(bool graphs, bool starts, struct td_record_options *opt,
                             struct td_error *err)
{
    if (graphs && !opt->graphs_mib)
        opt->graphs_mib = TD_TAP_CLIENT_GRAPHS_MIB;
    if (opt->graphs_mib && !starts)
        return td_fail(err, TD_EINVAL,
                       "--graphs is chosen when the server starts: give it with --run, or with "
                       "--tap-env before you start the server");
    return TD_OK;
}

int td_record_options_ops(struct td_record_options *opt, struct td_error *err)
{
    static struct td_own_file file;
    char why[TD_PATH_MAX + 300];

    if (!opt->ops)
        return TD_OK;
    if (!td_own_file_read(opt->ops, &file, why, sizeof why))
        return td_fail(err, TD_EINVAL, "--ops %s", why);
    opt->own = &file;
    return TD_OK;
}

int td_record_options_launches(const char *text, struct td_record_options *opt,
                               struct td_error *err)
{
    opt->mode.no_launches = !strcmp(text, "off");
    if (strcmp(text, "on") && strcmp(text, "off"))
        return td_fail(err, TD_EINVAL, "--launches %s: give on or off", text);
    return TD_OK;
}

int td_record_options_gpu_time(const char *text, struct td_record_options *opt,
                               struct td_error *err)
{
    opt->no_gpu_time = !strcmp(text, "off");
    if (strcmp(text, "on") && strcmp(text, "off"))
        return td_fail(err, TD_EINVAL, "--gpu-time %s: give on or off", text);
    return TD_OK;
}

int td_record_options_redact(const char *const *paths, struct td_error *err)
{
    for (; *paths; paths++)
        if ((*paths)[strspn(*paths, "*.")] == '\0')
            return td_fail(err, TD_EINVAL,
                           "--redact '%s' overwrites whole requests and answers, and nothing could be "
                           "replayed; name members (messages[*].content), or give --no-text",
                           *paths);
    return TD_OK;
}

int td_record_options_outputs(const char *text, struct td_record_options *opt, struct td_error *err)
{
    opt->digests = !strcmp(text, "digest");
    if (strcmp(text, "all") && strcmp(text, "digest"))
        return td_fail(err, TD_EINVAL, "--outputs %s: give all or digest", text);
    return TD_OK;
}

/* A sample must not disturb the server. Who asks for all gets all, unless they name a budget. */
static int64_t budget_of(const struct td_record_options *opt)
{
    if (opt->budget_mib < 0 || (!opt->budget_mib && opt->mode.steps == TD_TAP_CLIENT_ALL))
        return -1;
    return (int64_t)(opt->budget_mib * (1 << 20));
}

/* Options that need GEMMs to be recorded. */
static int check_with_gemms(struct td_record_options *opt, struct td_error *err)
{
    bool off = opt->mode.steps == TD_TAP_CLIENT_OFF;

    if (opt->mode.all_kinds && off)
        return td_fail(err, TD_EINVAL, "--all-ops and --gemms off exclude each other");
    if (opt->flight && off)
        return td_fail(err, TD_EINVAL, "--flight and --gemms off exclude each other");
    if (opt->ops && off)
        return td_fail(err, TD_EINVAL, "--ops and --gemms off exclude each other");
    if (opt->layers && off)
        return td_fail(err, TD_EINVAL, "--layers and --gemms off exclude each other");
    if (opt->digests && opt->mode.steps != TD_TAP_CLIENT_ALL)
        return td_fail(err, TD_EINVAL,
                       "--outputs digest needs --gemms all: of a sample hardly any op is seen twice, which shows that its "
                       "output repeats");
    if (opt->mode.no_launches && opt->graphs_mib)
        return td_fail(err, TD_EINVAL, "--launches off and --graphs exclude each other");
    return opt->layers ? td_layer_filter_check(opt->layers, err) : TD_OK;
}

int td_record_options_check(struct td_record_options *opt, struct td_error *err)
{
    opt->gemms_required |= opt->mode.all_kinds;
    opt->mode.flight_mib = opt->flight == TD_ARG_ALONE ? FLIGHT_MIB : (uint32_t)opt->flight;
    opt->mode.budget_bytes_per_s = budget_of(opt);
    return check_with_gemms(opt, err);
}
