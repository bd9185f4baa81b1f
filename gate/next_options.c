/* next_options.c - the options of this run that a command under NEXT repeats.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/next_options.h"

#include <string.h>

#include "common/shell_command.h"
#include "format/redact_words.h"

/* Is there a secret in "NAME=VALUE", by its name or its form? One that is too long to be looked at is
 * taken for one. */
static bool is_secret(const char *item)
{
    enum td_expect expect = TD_EXPECT_NOTHING;
    char copy[4096], *value;
    const size_t n = strlen(item);

    if (n >= sizeof copy)
        return true;
    memcpy(copy, item, n + 1);
    value = strchr(copy, '=');
    value = value ? value + 1 : copy;
    return td_redact_command_word(&expect, copy, n) + td_redact_text(value, strlen(value)) > 0;
}

/* Variables of a build. The command goes into reports: of a secret it names the variable, which the
 * person who copies the command has in the shell. */
static void add_variables(struct td_buf *out, const char *option, const struct td_arg_list *list)
{
    int i;

    for (i = 0; i < list->n; i++) {
        const char *item = list->item[i];
        const int name = (int)strcspn(item, "=");

        if (!is_secret(item))
            td_shell_add_option(out, option, item);
        else if ((int)strspn(item, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") == name)
            td_buf_addf(out, " %s %.*s=\"$%.*s\"", option, name, item, name, item);
        else
            td_buf_addf(out, " %s THE_SECRET_ONE", option); /* no shell has a variable of its name */
    }
}

void td_gate_add_builds(const struct td_gate_options *o, struct td_buf *out)
{
    td_shell_add_option(out, "--build", o->build);
    td_shell_add_option(out, "--provider", o->provider);
    td_shell_add_option(out, "--as", o->as);
    td_shell_add_option(out, "--baseline-build", o->baseline_build);
    td_shell_add_option(out, "--ops", o->ops);
    td_shell_add_option(out, "--checkpoint", o->checkpoint);
    add_variables(out, "--build-env", &o->build_env);
    add_variables(out, "--baseline-env", &o->baseline_env);
    td_shell_add_option(out, "--policy", o->policy);
}

void td_gate_add_servers(const struct td_gate_options *o, struct td_buf *out)
{
    td_shell_add_option(out, "--server", o->server);
    td_shell_add_option(out, "--baseline-server", o->baseline_server);
    td_shell_add_option(out, "--served-as", o->served_as);
    td_shell_add_option(out, "--api", o->api);
}
