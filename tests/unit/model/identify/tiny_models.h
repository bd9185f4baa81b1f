/* tiny_models.h - small checkpoints, each opened as an index of its layers: for tests of identifiers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_MODEL_IDENTIFY_TINY_MODELS_H
#define TD_TESTS_UNIT_MODEL_IDENTIFY_TINY_MODELS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "model/identify/identify.h"
#include "tests/unit/tiny_checkpoint.h"

/* Write n checkpoints into folders of root, which ends with XXXXXX and becomes a folder's name. 0, or 1. */
static inline int tiny_models_open(char *root, const struct tiny_spoil *spoil, int n, struct td_layer_index **models)
{
    char path[TD_PATH_MAX];
    int i;

    if (!mkdtemp(root))
        return 1;
    for (i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%d", root, i);
        if (mkdir(path, 0700) || tiny_checkpoint_write(path, &spoil[i]) || td_layer_index_open(path, &models[i], NULL))
            return 1;
    }
    return 0;
}

static inline int tiny_models_close(const char *root, int n, struct td_layer_index **models)
{
    int i;

    for (i = 0; i < n; i++)
        td_layer_index_close(models[i]);
    return td_fs_remove_tree(root, NULL);
}

#endif
