/* tar_head.h - the block before each file of a ustar archive.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_TAR_HEAD_H
#define TD_COMMON_TAR_HEAD_H

#include <stdint.h>

#define TD_TAR_BLOCK 512
#define TD_TAR_NAME 101

/* The head of a regular file, mode 0600. Sizes of 8 GiB and more are written in base 256, as GNU
 * tar does. */
void td_tar_head_write(char h[TD_TAR_BLOCK], const char *name, uint64_t size, int64_t mtime);
/* Returns 1 = the head of a regular file; *size is below 0 when it is none that a file can have;
 * 0 = a block of zeros: the end; -1 = no head of ustar; -2 = of a file in a folder, or of
 * no regular file. `name` is filled for 1 and -2. */
int td_tar_head_read(const char h[TD_TAR_BLOCK], char name[TD_TAR_NAME], int64_t *size);

#endif
