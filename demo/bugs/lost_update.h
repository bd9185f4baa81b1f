/* lost_update.h - in every second call the last block of K is lost, as when two blocks of a GPU read one sum, add
 * to it and write it back, without an atomic addition. SPDX-License-Identifier: Apache-2.0
 *
 * Results differ between calls, but not as those of sums in any order do: by a whole block. */
#include <stdatomic.h>

__attribute__((unused)) static int keep_blocks(int n)
{
    static _Atomic unsigned calls;

    return n > 1 && atomic_fetch_add(&calls, 1) % 2 ? n - 1 : n;
}
#define STEP_PLAN(x, p) ((p)->n_blocks = keep_blocks((p)->n_blocks))
