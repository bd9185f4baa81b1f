/* along_k.c - which part of K do the errors of a product come from?
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/along_k.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/memory.h"
#include "kernels/ops/block_sums.h"

#define CLASS (TD_ALONG_K_PERIOD / TD_ALONG_K_CLASSES)
#define FIRST_STEP 32
#define BESIDE_PARTS 4   /* numbers of an element beside those of its parts: error, weight, residual, sum of a block */
#define LEAST_PIVOT 1e-9 /* of what a coefficient adds, as a share of its own size */

/* ---- least squares --------------------------------------------------------------------------- */

struct fit { int p; double g[TD_ALONG_K_MOST][TD_ALONG_K_MOST], meat[TD_ALONG_K_MOST][TD_ALONG_K_MOST], u[TD_ALONG_K_MOST]; };

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The lower triangle of g becomes its Cholesky factor. False: g is singular. */
static bool factor(struct fit *f)
{
    for (int i = 0; i < f->p; i++)
        for (int j = 0; j <= i; j++) {
            double s = f->g[i][j];
            const double own = f->g[i][i];

            for (int k = 0; k < j; k++)
                s -= f->g[i][k] * f->g[j][k];
            if (i == j && !(s > LEAST_PIVOT * own))
                return false;
            f->g[i][j] = i == j ? sqrt(s) : s / f->g[j][j];
        }
    return true;
}

static void solve(const struct fit *f, double *b)
{
    for (int i = 0; i < f->p; i++) {
        for (int k = 0; k < i; k++)
            b[i] -= f->g[i][k] * b[k];
        b[i] /= f->g[i][i];
    }
    for (int i = f->p - 1; i >= 0; i--) {
        for (int k = i + 1; k < f->p; k++)
            b[i] -= f->g[k][i] * b[k];
        b[i] /= f->g[i][i];
    }
}

/* Add up u u' over columns, u being the sum of x times the residual over a column. */
static void add_clusters(struct fit *f, const double *x, const double *residual, int64_t rows, int64_t cols)
{
    for (int64_t j = 0; j < cols; j++) {
        for (int i = 0; i < f->p; i++) {
            f->u[i] = 0;
            for (int64_t r = 0; r < rows; r++)
                f->u[i] += x[i * rows * cols + r * cols + j] * residual[r * cols + j];
        }
        for (int i = 0; i < f->p; i++)
            for (int k = 0; k <= i; k++)
                f->meat[i][k] += f->u[i] * f->u[k];
    }
}

/* The variance of coefficient i: the i-th of G^-1 M G^-1. */
static double variance_of(struct fit *f, int i)
{
    double row[TD_ALONG_K_MOST] = {0}, sum = 0;

    row[i] = 1;
    solve(f, row);
    for (int a = 0; a < f->p; a++)
        for (int b = 0; b < f->p; b++)
            sum += row[a] * row[b] * (a > b ? f->meat[a][b] : f->meat[b][a]);
    return sum;
}

int td_along_k_regress(const double *x, const double *y, int64_t rows, int64_t cols, int p, struct td_along_k_fit *out,
                       struct td_error *err)
{
    const int64_t n = rows * cols;
    struct fit *f = NULL;
    double *residual;

    memset(out, 0, sizeof *out);
    if (p < 2 || p > TD_ALONG_K_MOST || cols < 2 * p || n < 4 * p)
        return TD_OK;
    f = calloc(1, sizeof *f);
    residual = malloc((size_t)n * sizeof *residual);
    if (!f || !residual) {
        free(f);
        free(residual);
        return td_fail(err, TD_ENOMEM, "out of memory to regress %lld errors", (long long)n);
    }
    f->p = p;
    for (int i = 0; i < p; i++) {
        for (int j = 0; j <= i; j++)
            f->g[i][j] = dot(x + i * n, x + j * n, n);
        out->est[i] = dot(x + i * n, y, n);
    }
    if (factor(f)) {
        solve(f, out->est);
        memcpy(residual, y, (size_t)n * sizeof *residual);
        for (int i = 0; i < p; i++)
            for (int64_t e = 0; e < n; e++)
                residual[e] -= out->est[i] * x[i * n + e];
        add_clusters(f, x, residual, rows, cols);
        for (int i = 0; i < p; i++)
            out->error[i] = sqrt(fmax(0, variance_of(f, i)) * (double)cols / (double)(cols - 1) * (double)(n - 1) / (double)(n - p));
        out->explained = 1 - dot(residual, residual, n) / (double)(n - p) / fmax(dot(y, y, n) / (double)n, 1e-300);
        out->n = p;
        out->dof = (double)(cols - p);
    }
    free(f);
    free(residual);
    return TD_OK;
}

/* ---- one op ---------------------------------------------------------------------------------- */

struct parts {
    int64_t n, step;                /* elements; of a piece */
    double *pieces, *classes, *y;   /* [TD_ALONG_K_MOST][n], [TD_ALONG_K_CLASSES][n], [n] */
    const double *weight;           /* [n] */
    bool has_classes;               /* K is long enough for them */
};

static void add_part(void *ctx, int64_t k0, int64_t kn, const double *sums)
{
    const struct parts *p = ctx;
    double *piece = p->pieces + k0 / p->step * p->n, *of_class = p->classes + k0 / CLASS % TD_ALONG_K_CLASSES * p->n;

    (void)kn;
    for (int64_t e = 0; e < p->n; e++)
        piece[e] += sums[e] * p->weight[e];
    for (int64_t e = 0; p->has_classes && e < p->n; e++)
        of_class[e] += sums[e] * p->weight[e];
}

/* What correct rounding allows at an element. */
static double allowed(const struct td_op_ref *ref, const struct td_judge_limits *lim, int64_t e)
{
    const double root_k = sqrt((double)(ref->inner > 0 ? ref->inner : 1));

    return lim->u_out * fabs(ref->r1[e]) + lim->u_acc * root_k * ref->mag[e] + lim->tiny + (ref->slack ? ref->slack[e] : 0);
}

/* The errors and the weights. An element near 0 weighs no more than one of its row's rms: where sums are kept in halves
 * its error is no smaller, and a few such elements would decide alone. False: something is not finite. */
static bool weigh(const struct td_op_ref *ref, const struct td_tensor *out, const void *image, const struct td_judge_limits *lim,
                  double *y, double *weight)
{
    const size_t w = td_dtype_size(out->dtype);

    for (int64_t i = 0; i < ref->rows; i++) {
        double squares = 0;

        for (int64_t j = 0; j < ref->cols; j++)
            squares += allowed(ref, lim, i * ref->cols + j) * allowed(ref, lim, i * ref->cols + j);
        for (int64_t j = 0; j < ref->cols; j++) {
            const int64_t e = i * ref->cols + j;
            const double c = td_dtype_get(out->dtype, (const char *)image + (size_t)td_judge_offset(out, i, j) * w, 0);

            weight[e] = 1 / fmax(allowed(ref, lim, e), sqrt(squares / (double)ref->cols));
            y[e] = (c - ref->r1[e]) * weight[e];
            if (!isfinite(y[e]) || !isfinite(weight[e]))
                return false;
        }
    }
    return true;
}

static int64_t step_of(int64_t k)
{
    int64_t step = FIRST_STEP;

    while ((k + step - 1) / step > TD_ALONG_K_MOST)
        step *= 2;
    return step;
}

static int64_t pieces_of(int64_t k, int64_t step)
{
    return (k + step - 1) / step;
}

static int fit_parts(const struct td_op_call *op, const struct td_op_ref *ref, struct parts *p, struct td_along_k *found, struct td_error *err)
{
    struct td_error why = {0, ""};
    int rc = td_block_sums(op, &(struct td_k_blocks){CLASS, NULL}, add_part, p, &why);

    if (rc)
        return rc == TD_ENOMEM ? td_fail(err, rc, "%s", why.msg) : TD_OK;
    rc = td_along_k_regress(p->pieces, p->y, ref->rows, ref->cols, (int)pieces_of(ref->inner, p->step), &found->pieces, err);
    if (!rc && p->has_classes)
        rc = td_along_k_regress(p->classes, p->y, ref->rows, ref->cols, TD_ALONG_K_CLASSES, &found->classes, err);
    found->step = found->pieces.n || found->classes.n ? p->step : 0;
    return rc;
}

int td_along_k_find(const struct td_op_call *op, const struct td_op_ref *ref, const void *image, const struct td_judge_limits *lim,
                    struct td_along_k *found, struct td_error *err)
{
    const int64_t n = ref->rows * ref->cols;
    struct parts p = {.n = n, .step = step_of(ref->inner), .has_classes = ref->inner >= 2 * TD_ALONG_K_PERIOD};
    const int64_t pieces = pieces_of(ref->inner, p.step), classes = p.has_classes ? TD_ALONG_K_CLASSES : 0;
    double *memory;
    int rc = TD_OK;

    memset(found, 0, sizeof *found);
    if (n <= 0 || ref->unjudged || ref->inner < 2 * FIRST_STEP || n > TD_ALONG_K_PRODUCTS / ref->inner)
        return TD_OK;
    if (n > TD_ALONG_K_NUMBERS / (pieces + classes + BESIDE_PARTS))
        return TD_OK;
    if (td_memory_room((uint64_t)(n * (pieces + classes + BESIDE_PARTS)) * sizeof *memory, "the parts of sums along K", err))
        return TD_ENOMEM;
    memory = calloc((size_t)(n * (pieces + classes + 2)) + 1, sizeof *memory);
    if (!memory)
        return td_fail(err, TD_ENOMEM, "out of memory for the parts of %lld sums", (long long)n);
    p.pieces = memory;
    p.classes = memory + n * pieces;
    p.y = p.classes + n * classes;
    p.weight = p.y + n;
    if (weigh(ref, &op->out, image, lim, p.y, p.y + n))
        rc = fit_parts(op, ref, &p, found, err);
    free(memory);
    return rc;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_fit(cJSON *to, const char *key, const struct td_along_k_fit *f)
{
    cJSON *list = f->n ? cJSON_AddArrayToObject(to, key) : NULL;

    for (int i = 0; i < f->n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateDoubleArray((double[]){(double)(float)f->est[i], (double)(float)f->error[i]}, 2));
}

cJSON *td_along_k_json(const struct td_along_k *found)
{
    cJSON *o = cJSON_CreateObject();

    cJSON_AddNumberToObject(o, "step", (double)found->step);
    cJSON_AddNumberToObject(o, "dof", found->pieces.n ? found->pieces.dof : found->classes.dof);
    cJSON_AddItemToObject(o, "explained", cJSON_CreateDoubleArray((double[]){found->pieces.explained, found->classes.explained}, 2));
    add_fit(o, "pieces", &found->pieces);
    add_fit(o, "classes", &found->classes);
    return o;
}
