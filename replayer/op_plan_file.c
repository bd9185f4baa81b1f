/* op_plan_file.c - a plan as JSON: write it, find it in a file, choose by it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/json.h"
#include "format/fixture_folder.h"
#include "replayer/op_order.h"
#include "replayer/op_plan.h"

#define FILE_MAX ((size_t)64 << 20)

/* ---- writing --------------------------------------------------------------------------------- */

static int by_op(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void add_range(cJSON *list, int64_t first, int64_t last)
{
    const double range[2] = {(double)first, (double)last};

    cJSON_AddItemToArray(list, cJSON_CreateDoubleArray(range, 2));
}

/* [[0, 3], [7, 7]]: the numbers of the chosen ops, first and last of each run. NULL: out of memory. */
static cJSON *write_ops(const struct td_op_list *l)
{
    int64_t *ops = malloc((l->n + 1) * sizeof *ops), first;
    cJSON *list = cJSON_CreateArray();
    size_t i, n = 0;

    for (i = 0; ops && i < l->n; i++)
        if (l->items[i].chosen)
            ops[n++] = l->items[i].op;
    if (ops)
        qsort(ops, n, sizeof *ops, by_op);
    for (i = 0; i < n; i++) {
        first = ops[i];
        while (i + 1 < n && ops[i + 1] == ops[i] + 1)
            i++;
        add_range(list, first, ops[i]);
    }
    free(ops);
    return list;
}

cJSON *td_op_plan_json(const struct td_op_list *l, const struct td_op_share *share, const char *by, double time_s,
                       const char *fixture_id)
{
    static const char *const EACH[] = {"kernel", "shape", "M class", "layer"};
    cJSON *plan = cJSON_CreateObject();

    if (!plan)
        return NULL;
    cJSON_AddStringToObject(plan, "fixture", fixture_id);
    cJSON_AddStringToObject(plan, "by", by);
    if (time_s > 0)
        cJSON_AddNumberToObject(plan, "time_s", time_s);
    cJSON_AddNumberToObject(plan, "order", TD_OP_ORDER_VERSION);
    cJSON_AddNumberToObject(plan, "planned", (double)share->planned);
    cJSON_AddNumberToObject(plan, "of", (double)share->of);
    cJSON_AddItemToObject(plan, "each", cJSON_CreateStringArray(EACH, share->each_layer ? 4 : share->each_shape ? 3 : 0));
    if (share->planned < (int64_t)l->n)
        cJSON_AddItemToObject(plan, "ops", write_ops(l));
    return plan;
}

/* ---- reading --------------------------------------------------------------------------------- */

static const cJSON *plan_of_replay(const cJSON *object)
{
    return td_json_get(td_json_get(object, "replay"), "op_plan");
}

/* The plan of this fixture in a manifest, a report, or a report of several fixtures. *any: there is one at
 * all, perhaps of another fixture. */
static const cJSON *find_plan(const cJSON *object, const char *fixture_id, bool *any)
{
    static const char *const LISTS[] = {"fixtures", "reports"};
    const cJSON *plan = plan_of_replay(object), *one;
    size_t i;

    *any |= cJSON_IsObject(plan);
    if (cJSON_IsObject(plan) && !strcmp(td_json_get_str(plan, "fixture", ""), fixture_id))
        return plan;
    for (i = 0, plan = NULL; i < 2 && !plan; i++)
        cJSON_ArrayForEach(one, td_json_get(object, LISTS[i]))
            plan = plan ? plan : find_plan(one, fixture_id, any);
    return plan;
}

/* The file at the path; of a replay, packed or not, its manifest. NULL with the error. */
static cJSON *load_file(const char *path, struct td_error *err)
{
    char folder[TD_PATH_MAX], manifest[TD_PATH_MAX];
    const bool is_folder = td_fs_is_dir(path);

    if (!is_folder && !td_fixture_is(path))
        return td_json_load_regular(path, FILE_MAX, err);
    if (!is_folder && td_fixture_folder(path, folder, err))
        return NULL;
    if (td_fs_join(manifest, sizeof manifest, is_folder ? path : folder, "manifest.json", err))
        return NULL;
    return td_json_load_member(manifest, FILE_MAX, err);
}

int td_op_plan_load(const char *path, const char *fixture_id, cJSON **out, struct td_error *err)
{
    struct td_error why = {0};
    cJSON *file = load_file(path, &why);
    const cJSON *found;
    bool any = false;

    *out = NULL;
    if (!file)
        return td_fail(err, why.code, "--plan: %s", why.msg);
    found = find_plan(file, fixture_id, &any);
    *out = found ? cJSON_Duplicate(found, true) : NULL;
    cJSON_Delete(file);
    if (*out)
        return TD_OK;
    return found ? td_fail(err, TD_ENOMEM, "out of memory for the plan of %.300s", path)
           : any ? td_fail(err, TD_EINVAL, "--plan %.300s: a plan of another fixture", path)
                 : td_fail(err, TD_EINVAL, "--plan %.300s: no plan in it; name a replay, or a report that {gate} --json wrote", path);
}

struct range { int64_t first, last; };

/* The number of an op. -1: it is none. */
static int64_t read_op(const cJSON *v)
{
    const int64_t op = td_json_i64(v, -1);

    return cJSON_IsNumber(v) && v->valuedouble != (double)op ? -1 : op;
}

static int by_first(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Read the ranges, sorted. *n SIZE_MAX: all ops are planned. */
static struct range *read_ranges(const cJSON *plan, size_t *n, struct td_error *err)
{
    const cJSON *ops = td_json_get(plan, "ops"), *one;
    struct range *r = calloc((size_t)cJSON_GetArraySize(ops) + 1, sizeof *r);
    size_t i;

    *n = cJSON_IsArray(ops) ? 0 : SIZE_MAX;
    if (!r)
        td_fail(err, TD_ENOMEM, "out of memory for a plan");
    if (!r || *n == SIZE_MAX)
        return r;
    cJSON_ArrayForEach(one, ops) {
        r[*n].first = read_op(cJSON_GetArrayItem(one, 0));
        r[*n].last = cJSON_GetArraySize(one) == 2 ? read_op(cJSON_GetArrayItem(one, 1)) : -1;
        (*n)++;
    }
    qsort(r, *n, sizeof *r, by_first);
    for (i = 0; i < *n; i++)
        if (r[i].first < 0 || r[i].last < r[i].first || (i && r[i].first <= r[i - 1].last)) {
            td_fail(err, TD_EINVAL, "--plan: its ops are no list of ranges, as [[0, 3], [7, 7]]");
            free(r);
            return NULL;
        }
    return r;
}

static bool is_in(const struct range *r, size_t n, int64_t op)
{
    size_t low = 0, high = n;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (r[middle].last < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && r[low].first <= op;
}

/* Does the fixture hold all ops that the ranges name? Of a damaged one nobody knows.
 *   found : of these, how many it holds */
static int check_named(const struct range *r, size_t n, int64_t found, bool damaged, struct td_error *err)
{
    int64_t named = 0;
    size_t i;

    for (i = 0; i < n; i++)
        named = r[i].last - r[i].first < INT64_MAX - named ? named + (r[i].last - r[i].first + 1) : INT64_MAX;
    if (found >= named || damaged)
        return TD_OK;
    return td_fail(err, TD_EINVAL, "--plan: it names %lld ops, of which the fixture holds %lld", (long long)named,
                   (long long)found);
}

int td_op_plan_choose(const cJSON *plan, struct td_op_list *l, int64_t *left_out, struct td_error *err)
{
    size_t n = 0, i;
    struct range *r = read_ranges(plan, &n, err);
    int64_t found = 0;
    int rc = TD_OK;

    *left_out = 0;
    if (!r)
        return err && err->code ? err->code : TD_EINVAL;
    for (i = 0; n != SIZE_MAX && i < l->n; i++) {
        struct td_op_choice *c = &l->items[i];
        const bool planned = is_in(r, n, c->op);

        found += planned;
        if (c->chosen && !planned) {
            c->chosen = false;
            l->groups[c->group].chosen--;
            (*left_out)++;
        }
    }
    if (n != SIZE_MAX)
        rc = check_named(r, n, found, l->bad_frames, err);
    free(r);
    if (!rc)
        td_op_list_give_turns(l);
    return rc;
}

/* Count the ops of the fixture that lie in the ranges. What cannot be read is told when it is replayed. */
static int64_t count_in(struct td_fixture *fx, const struct range *r, size_t n, bool *damaged)
{
    struct td_cursor *c = NULL;
    struct td_op op = {0};
    int64_t found = 0;
    int rc = td_cursor_open(fx, TD_STREAM_OPS, &c, NULL);

    *damaged = rc != TD_OK;
    while (!rc && (rc = td_cursor_op(c, &op, NULL)) != 0) {
        found += rc > 0 && is_in(r, n, op.op);
        *damaged |= rc < 0;
        rc = rc > 0 || rc == TD_ECORRUPT || rc == TD_ETRUNCATED || rc == TD_ELIMIT ? TD_OK : rc;
    }
    td_op_release(&op);
    td_cursor_close(c);
    return found;
}

int td_op_plan_check(const char *path, struct td_fixture *fx, struct td_error *err)
{
    cJSON *plan = NULL;
    struct range *r = NULL;
    bool damaged = false;
    int64_t found;
    size_t n = 0;
    int rc = td_op_plan_load(path, td_fixture_id(fx), &plan, err);

    if (!rc && !(r = read_ranges(plan, &n, err)))
        rc = err && err->code ? err->code : TD_EINVAL;
    if (!rc && n != SIZE_MAX) {
        found = count_in(fx, r, n, &damaged);
        rc = check_named(r, n, found, damaged, err);
    }
    free(r);
    cJSON_Delete(plan);
    return rc;
}
