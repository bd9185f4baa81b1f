/* header_args.h - check the headers that are given on a command line, and what is said about them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_HEADER_ARGS_H
#define TD_FORMAT_HEADER_ARGS_H

#include "common/args.h"

/* Read -H @FILE, and check -H, --show-header and --redact-header; the latter may be NULL. TD_EINVAL: no NAME:VALUE, a name
 * that is none, a header to show that was not given, or that is always a secret. */
int td_header_args_check(struct td_arg_list *headers, const struct td_arg_list *show, const struct td_arg_list *redact,
                         struct td_error *err);

/* From now on the values of these headers are overwritten in all that this program prints and reports
 * (common/hidden.h), by the rules of redact_values.h. td_header_args_check() does so by itself. Once in
 * a program. TD_ENOMEM, TD_ELIMIT. */
int td_header_args_hide(const struct td_arg_list *headers, struct td_error *err);

#endif
