/* own_json.h - the file of --ops, for the process of provider torch.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OWN_JSON_H
#define TD_REPLAYER_OWN_JSON_H

#include "common/error.h"

/* Read the file at path, and make the variable "TD_OPS_ROWS={…}" of it: kernels/providers/
 * torch_own_ops.py reads it. Paths to load are taken from the file's folder. *out : free() it
 * TD_EINVAL: the file is wrong, and the sentence names the line; TD_ENOMEM; TD_ELIMIT. */
int td_own_json_variable(const char *path, char **out, struct td_error *err);

#endif
