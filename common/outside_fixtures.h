/* outside_fixtures.h - refuse to write among a fixture's own files.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_OUTSIDE_FIXTURES_H
#define TD_COMMON_OUTSIDE_FIXTURES_H

#include "common/error.h"

/* May a file or a folder be made at this path? TD_EINVAL: it would lie in the folder of a fixture, or
 * in a new folder there; the sentence names that one. A link is followed. TD_OK for a descriptor ("-")
 * and for NULL. What is there already, and what cannot be looked at, is for whoever writes it. */
int td_outside_fixtures(const char *path, struct td_error *err);
/* The same, of the value of an option, which the sentence begins with. */
int td_outside_fixtures_option(const char *option, const char *path, struct td_error *err);
/* The same, of a folder in which files will be made: it may not be a fixture's own either. */
int td_outside_fixtures_folder_option(const char *option, const char *dir, struct td_error *err);

#endif
