/* slow_load.c - in LD_PRELOAD: llama.cpp's server loads its model for ten minutes, and answers 503 meanwhile as it always does.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <unistd.h>

void *llama_model_load_from_file(const char *path, ...);

/* llama.h's function. Nothing is passed on: the row that uses this ends the server long before. NULL: could not be loaded. */
void *llama_model_load_from_file(const char *path, ...)
{
    (void)path;
    sleep(600);
    return NULL;
}
