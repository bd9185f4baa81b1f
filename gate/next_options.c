/* next_options.c - the options of this run that a command under NEXT repeats.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/next_options.h"

#include "common/shell_command.h"

static void add_list(struct td_buf *out, const char *option, const struct td_arg_list *list)
{
    int i;

    for (i = 0; i < list->n; i++)
        td_shell_add_option(out, option, list->item[i]);
}

void td_gate_add_builds(const struct td_gate_options *o, struct td_buf *out)
{
    td_shell_add_option(out, "--build", o->build);
    td_shell_add_option(out, "--provider", o->provider);
    td_shell_add_option(out, "--baseline-build", o->baseline_build);
    td_shell_add_option(out, "--checkpoint", o->checkpoint);
    add_list(out, "--build-env", &o->build_env);
    add_list(out, "--baseline-env", &o->baseline_env);
    td_shell_add_option(out, "--policy", o->policy);
}

void td_gate_add_servers(const struct td_gate_options *o, struct td_buf *out)
{
    td_shell_add_option(out, "--server", o->server);
    td_shell_add_option(out, "--baseline-server", o->baseline_server);
    td_shell_add_option(out, "--served-as", o->served_as);
    td_shell_add_option(out, "--api", o->api);
}
