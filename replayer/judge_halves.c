/* judge_halves.c - judge what a right kernel would give that keeps its sums in halves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/judge_halves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/adapters/adapters.h"
#include "kernels/ops/dot_f32.h"
#include "kernels/ops/half_sums.h"

/* Does the kernel that was recorded keep its sums in halves? exllama's operator has cuBLAS multiply many rows so (q_gemm.cu:
 * cublasHgemm). */
static bool recorded_in_halves(const struct td_op_item *it)
{
    const char *symbol = it->call.symbol, *layout = it->call.layout;

    return td_gpu_kernel_adds(symbol, layout, td_op_attr(&it->call, "bits", 4), td_judge_rows(&it->call.out)) ||
           (td_gpu_symbol_is_operator(symbol) && !strcmp(layout, "exllama"));
}

/* A block or a step that is too small. Steps are told by providers alone, which know their kernels. */
static bool is_refused(struct td_half_sums h)
{
    return h.block > 0 && (h.block < TD_HALVES_LEAST || (h.step && h.step < TD_HALVES_LEAST_STEP));
}

/* The sums that a run declares and that are taken; 0: there are none. */
static int sums_of(const struct td_run_result *run)
{
    return is_refused(td_half_sums_unpack(run->half_sums)) ? 0 : run->half_sums;
}

int td_halves_refused(const struct td_run_result *run)
{
    const struct td_half_sums h = td_half_sums_unpack(run->half_sums);

    return is_refused(h) ? td_half_sums_least(h) : 0;
}

/* The sums that have to be explained: of the candidate beside the baseline, or of the baseline beside what was
 * recorded. 0: none have. */
static int wanted_sums(const struct td_op_item *it, bool *of_baseline)
{
    const int baseline = it->has_baseline ? sums_of(&it->baseline) : 0, candidate = sums_of(&it->candidate);

    *of_baseline = !candidate || (it->has_baseline ? baseline > 0 : recorded_in_halves(it));
    if (!*of_baseline)
        return candidate;
    return baseline && !recorded_in_halves(it) ? baseline : 0;
}

/* The output of such a kernel, in the memory image that the op's output has. */
static void round_output(const struct td_op_ref *ref, const struct td_tensor *out, const double *loss, void *image)
{
    for (int64_t i = 0; i < ref->rows; i++)
        for (int64_t j = 0; j < ref->cols; j++)
            td_store_f32(out->dtype, image, td_judge_offset(out, i, j), (float)(ref->r1[i * ref->cols + j] + loss[i * ref->cols + j]));
}

int td_judge_halves(struct td_op_item *it, const struct td_op_ref *ref, struct td_error *err)
{
    const struct td_tensor *out = &it->call.out;
    const struct td_half_sums how = td_half_sums_unpack(wanted_sums(it, &it->halves_of_baseline));
    struct td_error why = {0, ""};
    double *loss;
    void *image;
    int rc;

    it->halves = 0;
    if (!how.block || td_judge_check_image(ref, out, NULL))
        return TD_OK;
    loss = calloc((size_t)(ref->rows * ref->cols) + 1, sizeof *loss);
    image = calloc(1, out->size_bytes + 1);
    rc = loss && image ? td_half_sums_loss(&it->call, how, loss, &why) : TD_ENOMEM;
    if (!rc) {
        const void *const images[1] = {image};

        round_output(ref, out, loss, image);
        rc = td_judge_output(ref, out, images, 1, &it->limits, &it->e_halves, &why);
    }
    if (!rc && isfinite(it->e_halves.score))
        it->halves = td_half_sums_least(how);
    free(loss);
    free(image);
    return rc == TD_ENOMEM ? td_fail(err, TD_ENOMEM, "out of memory for sums in halves") : TD_OK;
}
