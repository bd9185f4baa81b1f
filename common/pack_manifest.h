/* pack_manifest.h - the manifest of a packed fixture, read without unpacking it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_PACK_MANIFEST_H
#define TD_COMMON_PACK_MANIFEST_H

#include <stddef.h>

#include "common/json.h"

/* A pack begins with its manifest, so that only the beginning is read, whatever the size of the pack.
 *   max : bytes of a manifest
 * NULL: no pack, a damaged one, one that begins with another file, or a manifest that is too large.
 * The caller deletes it. */
cJSON *td_pack_manifest(const char *path, size_t max);

#endif
