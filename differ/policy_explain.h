/* policy_explain.h - each threshold of a policy in words: value, meaning, source.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_POLICY_EXPLAIN_H
#define TD_DIFFER_POLICY_EXPLAIN_H

#include "common/buf.h"
#include "differ/policy.h"

/* Append three lines for each threshold: its name, value and, where another value than the default
 * is set, the default; what it means; where the default comes from. */
void td_policy_explain(const struct td_policy *p, struct td_buf *out);

#endif
