/* reference_choice.c - which device computes the references of a replay.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/reference_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"

#define MOST_PATIENCE_S 86400
#define WORTH_A_GPU 2e10  /* products: a CPU takes seconds; to open a GPU takes about one */
#define WORTH_A_GPU_S 3.0 /* in less time a core computes fewer products than that, and a GPU is hardly open */

int td_reference_choice_parse(const char *text, enum td_reference_choice *out, struct td_error *err)
{
    static const char *const names[] = {"auto", "cpu", "gpu"};

    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) {
            *out = (enum td_reference_choice)i;
            return TD_OK;
        }
    return td_fail(err, TD_EINVAL, "--reference: \"%s\" is none of auto, cpu, gpu", text);
}

/* The folder of libraries, beside that of programs. */
static const char *code_folder(void)
{
    static char folder[4096];
    char self[4000];

    if (td_fs_self_dir(self, sizeof self, NULL))
        return NULL;
    snprintf(folder, sizeof folder, "%s/../lib", self);
    return folder;
}

static struct td_reference_gpu *start_gpu(void)
{
    const char *folder = code_folder(), *patience = getenv("TD_GPU_PATIENCE");
    const int seconds = patience ? atoi(patience) : 0;
    struct td_reference_gpu *gpu = folder ? td_reference_gpu_start(folder) : NULL;

    if (gpu && seconds >= 1 && seconds <= MOST_PATIENCE_S)
        td_reference_gpu_patience(gpu, seconds);
    return gpu;
}

void td_reference_makers_start(struct td_reference_makers *makers, enum td_reference_choice choice, double products, double time_s)
{
    const bool is_worth_it = products >= WORTH_A_GPU && (time_s <= 0 || time_s >= WORTH_A_GPU_S);

    memset(makers, 0, sizeof *makers);
    if (choice == TD_REFERENCE_GPU || (choice == TD_REFERENCE_AUTO && is_worth_it))
        makers->gpu = start_gpu();
}

int td_reference_makers_check(struct td_reference_makers *makers, enum td_reference_choice choice, struct td_error *err)
{
    char words[600] = "its thread cannot be started";

    if (choice != TD_REFERENCE_GPU ||
        (makers->gpu && td_reference_gpu_state(makers->gpu, true, words, sizeof words) == TD_REFERENCE_READY))
        return TD_OK;
    return td_fail(err, TD_EINVAL, "--reference gpu: %s", words); /* and the caller closes */
}

void td_reference_makers_settle(struct td_reference_makers *makers)
{
    char words[8];

    if (makers->gpu)
        td_reference_gpu_state(makers->gpu, true, words, sizeof words);
}

static bool is(struct td_reference_makers *makers, enum td_reference_state state)
{
    char words[8];

    return makers->gpu && td_reference_gpu_state(makers->gpu, false, words, sizeof words) == state;
}

bool td_reference_makers_are_wrong(struct td_reference_makers *makers)
{
    return is(makers, TD_REFERENCE_WRONG);
}

bool td_reference_makers_have_gpu(struct td_reference_makers *makers)
{
    return is(makers, TD_REFERENCE_READY);
}

void td_reference_makers_words(struct td_reference_makers *makers, char *text, size_t size)
{
    const long long gpu = atomic_load(&makers->by_gpu), all = gpu + atomic_load(&makers->by_cpu);
    char words[600];
    enum td_reference_state state;

    text[0] = '\0';
    if (!makers->gpu)
        return;
    state = td_reference_gpu_state(makers->gpu, false, words, sizeof words);
    if (state == TD_REFERENCE_WRONG && gpu)
        snprintf(text, size, "%.300s; so %lld of %lld references, which it had computed before, are not trusted, and their ops not judged: "
                 "--reference cpu judges all", words, gpu, all);
    else if (state == TD_REFERENCE_WRONG)
        snprintf(text, size, "%.300s; the CPU computed all %lld references", words, all);
    else if (state == TD_REFERENCE_LOST)
        snprintf(text, size, "the GPU was lost: %.300s; it computed %lld of %lld references, the CPU the others", words, gpu, all);
    else if (gpu)
        snprintf(text, size, "%.200s computed %lld of %lld references%s", words, gpu, all, gpu < all ? ", the CPU the others" : "");
}

void td_reference_makers_leave(struct td_reference_makers *makers)
{
    td_reference_gpu_leave(makers->gpu);
}

bool td_reference_makers_close(struct td_reference_makers *makers)
{
    const bool ended = td_reference_gpu_stop(makers->gpu);

    makers->gpu = NULL;
    return ended;
}
