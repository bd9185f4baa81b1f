/* unordered.h - the blocks of K are added in an order that changes from call to call; each order is
 * as good as any other. SPDX-License-Identifier: Apache-2.0
 *
 * As partial sums that blocks of a GPU add atomically, here in fp32: about one f16 output in a
 * thousand changes by its last bit. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

__attribute__((unused)) static inline void shuffle(void *items, size_t size, int n)
{
    static _Atomic uint64_t calls;
    unsigned char *at = items, tmp[64];
    struct timespec now;
    uint64_t seed;

    clock_gettime(CLOCK_MONOTONIC, &now);
    seed = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u + atomic_fetch_add(&calls, 1);
    for (int i = n - 1; i > 0; i--) {
        const size_t j = (size_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % (size_t)(i + 1);

        memcpy(tmp, at + (size_t)i * size, size);
        memcpy(at + (size_t)i * size, at + j * size, size);
        memcpy(at + j * size, tmp, size);
    }
}
#define STEP_PLAN(x, p) shuffle((p)->blocks, sizeof *(p)->blocks, (p)->n_blocks)
