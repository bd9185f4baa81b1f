/* run_images.c - take the outputs of a run out of the memory that the build's process shares.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/run_images.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

#define BEHIND 64 /* bytes that may be read behind the last image */

/* Make room for n images. What is there stays. */
static int make_room(void **memory, size_t n, size_t step, struct td_error *err)
{
    void *more;
    size_t bytes;

    if (__builtin_mul_overflow(n, step, &bytes) || bytes > SIZE_MAX - BEHIND)
        return td_fail(err, TD_ENOMEM, "out of memory for %zu outputs of %zu bytes", n, step);
    if (td_memory_room(step, "its outputs", err))
        return TD_ENOMEM;
    more = realloc(*memory, bytes + BEHIND);
    if (!more)
        return td_fail(err, TD_ENOMEM, "out of memory for %zu outputs of %zu bytes", n, step);
    *memory = more;
    return TD_OK;
}

int td_run_images_take(const void *from, size_t size, int repeats, struct td_run_result *res, struct td_error *err)
{
    const size_t step = td_proto_image_stride(size);
    size_t at[TD_PROTO_MAX_REPEATS], used = 0, room = 0;
    void *memory = NULL;
    int i;

    for (i = 0; i < repeats; i++) {
        char *image;

        if (used == room && make_room(&memory, ++room, step, err)) {
            free(memory);
            return TD_ENOMEM;
        }
        image = (char *)memory + used * step;
        memcpy(image, (const char *)from + step * (size_t)i, size);
        at[i] = i && !memcmp(memory, image, size) ? 0 : used++;
    }
    if (used < room) { /* the last one was equal: its room is not needed. It shrinks, and stays where it cannot */
        void *less = realloc(memory, used * step + BEHIND);

        memory = less ? less : memory;
    }
    for (i = 0; i < repeats; i++)
        res->images[i] = (char *)memory + at[i] * step;
    res->memory = memory;
    res->repeats = repeats;
    return TD_OK;
}
