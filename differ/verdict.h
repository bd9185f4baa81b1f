/* verdict.h - the verdicts, from which the gravest wins.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_VERDICT_H
#define TD_DIFFER_VERDICT_H

/* In rising order of gravity. NOT_JUDGED takes no part. */
enum td_verdict { TD_NOT_JUDGED, TD_PASS, TD_INCONCLUSIVE, TD_REGRESSED, TD_BROKEN };
const char *td_verdict_name(enum td_verdict v); /* "not judged", "pass" ... */
/* The exit code (enum td_exit) of a program that ends with this verdict. NOT_JUDGED exits as
 * inconclusive does. */
int td_verdict_exit(enum td_verdict v);

#endif
