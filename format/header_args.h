/* header_args.h - check the headers that are given on a command line, and what is said about them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_HEADER_ARGS_H
#define TD_FORMAT_HEADER_ARGS_H

#include "common/args.h"

struct td_redact_values;

/* Read -H @FILE, and check -H, --show-header and --redact-header; the latter may be NULL. TD_EINVAL: no NAME:VALUE, a name
 * that is none, a header to show that was not given, or that is always a secret. */
int td_header_args_check(struct td_arg_list *headers, const struct td_arg_list *show, const struct td_arg_list *redact,
                         struct td_error *err);

/* From now on what is secret of these words is overwritten in all that this program prints and reports
 * (common/hidden.h), by the rules of redact_values.h: the values of headers, and those of variables
 * ("NAME=VALUE") and of other words ("Authorization: X", where -H was forgotten) whose name is a secret's.
 * So are secrets in URLs, also without a call's words. A call adds to those before it; the words are
 * borrowed for the life of the program. TD_ENOMEM, TD_ELIMIT. */
int td_header_args_hide(const struct td_arg_list *headers, struct td_error *err);
int td_header_args_hide_named(const char *const *words, int n, struct td_error *err);
/* The same for values that become more meanwhile (td_redact_values_learn); borrowed until the next call, which may
 * give NULL: none. Call it while no other thread prints. */
void td_header_args_hide_values(const struct td_redact_values *values);

#endif
