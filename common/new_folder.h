/* new_folder.h - make a folder that nobody else makes at the same moment.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_NEW_FOLDER_H
#define TD_COMMON_NEW_FOLDER_H

#include "common/error.h"
#include "common/fs.h"

/* Make the folder `name`, or where that is taken name-2, name-3 ... and write its path to out. Those
 * above it are made as needed. mkdir decides, so that two processes never get the same one.
 * TD_EEXIST: a thousand are there; TD_EIO. */
int td_new_folder(const char *name, char out[TD_PATH_MAX], struct td_error *err);

#endif
