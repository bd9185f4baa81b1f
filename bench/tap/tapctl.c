/* tapctl.c - switch the tap of a running server on command, for measurements.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: tapctl PORT DIR     reads a command a line from stdin, answers each with "ok OPS_RECORDED OPS_DROPPED RESTED_MS":
 *   off                                   disarm
 *   auto                                  arm as `record --gemms auto` does
 *   sample P MIB_PER_S [FLIGHT_MIB]       arm for P % of the steps, within that budget, with a flight recorder of that size
 *   all                                   arm for every op
 *   count                                 arm for every op with a budget of 1 byte/s: ops are counted, not copied
 *   pause, resume                         let the writer's thread rest, as record does around a group of requests */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/tap_client/tap_client.h"

static int command(struct td_tap_client *l, struct td_writer *w, const char *line, struct td_error *err)
{
    struct td_tap_client_mode m = {0};
    double mib;

    if (!strncmp(line, "pause", 5))
        return td_writer_pause(w), TD_OK;
    if (!strncmp(line, "resume", 6))
        return td_writer_resume(w), TD_OK;
    if (!strncmp(line, "off", 3))
        return td_tap_client_disarm(l, err);
    if (!strncmp(line, "auto", 4))
        return td_tap_client_arm(l, &(struct td_tap_client_mode){.steps = TD_TAP_CLIENT_SAMPLE, .time_ppm = TD_TAP_CLIENT_AUTO_TIME_PPM}, err);
    m.steps = TD_TAP_CLIENT_ALL;
    m.budget_bytes_per_s = strncmp(line, "count", 5) ? -1 : 1;
    if (sscanf(line, "sample %lf %lf %u", &m.percent, &mib, &m.flight_mib) >= 2) {
        m.steps = TD_TAP_CLIENT_SAMPLE;
        m.budget_bytes_per_s = (int64_t)(mib * 1048576);
    }
    return td_tap_client_arm(l, &m, err);
}

int main(int argc, char **argv)
{
    struct td_tap_client_options opt = {0};
    struct td_tap_client *l = NULL;
    struct td_error err = {0};
    char line[128];
    int rc;

    if (argc != 3)
        return 2;
    rc = td_writer_create(argv[2], &(struct td_writer_options){.tool = "tapctl"}, &opt.writer, &err);
    if (!rc)
        rc = td_tap_client_open(&(struct td_tap_client_target){.port = atoi(argv[1]), .wait_ms = 5000}, &opt, &l, &err);
    while (!rc && fgets(line, sizeof line, stdin)) {
        struct td_tap_client_state s;

        rc = command(l, opt.writer, line, &err);
        td_tap_client_state(l, &s);
        printf("ok %lld %lld %lld\n", (long long)s.ops_kept, (long long)s.ops_dropped, (long long)s.rested_ms);
        fflush(stdout);
    }
    td_tap_client_close(l, &err);
    td_writer_close(opt.writer, "complete", &err);
    if (err.code)
        fprintf(stderr, "tapctl: %s\n", err.msg);
    return rc != 0;
}
