/* lfs.h - a file that git LFS keeps elsewhere, of which only the pointer was fetched.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_LFS_H
#define TD_COMMON_LFS_H

#include <stdbool.h>

/* What to say of such a file. */
#define TD_LFS_POINTER "only a pointer of git LFS is here, not the file; run `git lfs pull`"

/* Does the file hold what git puts in the place of a large file until it is fetched? The first: a
 * pack, which may be named through a link; the second: a file in the folder of a fixture. */
bool td_pack_is_lfs_pointer(const char *path);
bool td_member_is_lfs_pointer(const char *path);

#endif
