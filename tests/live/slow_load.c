/* slow_load.c - with LD_PRELOAD: llama.cpp's server loads its model for ten minutes and answers 503
 * meanwhile.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <unistd.h>

void *llama_model_load_from_file(const char *path, ...);

/* Replaces the function of llama.h and never loads anything: the row ends the server long
 * before. */
void *llama_model_load_from_file(const char *path, ...)
{
    (void)path;
    sleep(600);
    return NULL;
}
