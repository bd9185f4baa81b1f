/* name_index.h - find an entry of a list by a hash of its name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The server makes up the names and says how often each comes. A list that is searched from its
 * start costs as many steps a record as it has entries. */
#ifndef TD_RECORDER_TAP_CLIENT_NAME_INDEX_H
#define TD_RECORDER_TAP_CLIENT_NAME_INDEX_H

#include <stdbool.h>
#include <stdint.h>

/* Hashes, each with the number of its entry in the caller's list. Zeroed: empty. The caller bounds
 * how many there are. */
struct client_index_slot { uint64_t hash; uint32_t entry; bool used; };
struct client_index { struct client_index_slot *slot; uint32_t n, cap; };

#define CLIENT_INDEX_NONE UINT32_MAX

/* Is the entry of this number the one that `key` describes? */
typedef bool (*client_index_is)(const void *list, uint32_t entry, const void *key);

/* The number of the entry with this hash for which `is` says yes; CLIENT_INDEX_NONE: there is
 * none. */
uint32_t client_index_find(const struct client_index *x, uint64_t hash, client_index_is is,
                           const void *list, const void *key);
/* Add an entry. False: out of memory, and nothing is added. */
bool client_index_add(struct client_index *x, uint64_t hash, uint32_t entry);
void client_index_release(struct client_index *x);

#endif
