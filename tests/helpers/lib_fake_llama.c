/* lib_fake_llama.c - a fake llama.cpp server for tests of the tap's ggml front: the part of ggml
 * that the tap uses, and a model of a few nodes that runs as llama.cpp runs its own. ggml_host.c
 * loads it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written from ggml/include/ggml.h. The numbers of the ops differ from every real tree on purpose:
 * the tap must go by names. lib_fake_llama_old_layout.c compiles this file with OLD_LAYOUT.
 *
 * fake_command(line) does one command and returns how many results were wrong:
 *   graphs N      compute N graphs and check every result
 *   threads T N   the same in T threads, each with its own scheduler
 *   own, noown    set or remove the server's own callback, which asks for about half of the nodes
 *   stop          the server's callback ends each graph at once
 *   gpu           activations lie in memory that is not the host's
 *   fail          one node fails
 *   throw         one node leaves the graph as an exception would, and the server computes the
 *                 graph again */
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* no header: dlsym or the linker finds these */

enum { F32, F16, Q4_0, I32, I64, TYPES };
enum { NONE, VIEW, ADD, GET_ROWS, UNARY, SCALE, MUL_MAT, SET_ROWS, OPS };
static const struct { const char *name; size_t size; int64_t block; } type_of[TYPES] = {{"f32", 4, 1}, {"f16", 2, 1}, {"q4_0", 18, 32}, {"i32", 4, 1}, {"i64", 8, 1}};
static const char *const op_names[OPS] = {"NONE", "VIEW", "ADD", "GET_ROWS", "UNARY", "SCALE", "MUL_MAT", "SET_ROWS"};

struct buffer { const char *name; bool host; int usage; };
struct tensor {
    int32_t type;
    struct buffer *buffer;
    int64_t ne[4];
    size_t nb[4];
#ifdef OLD_LAYOUT
    struct tensor *grad;
#endif
    int32_t op, op_params[16], flags;
    struct tensor *src[10], *view_src;
    size_t view_offs;
    void *data;
    char name[64];
    void *extra;
    char padding[8];
};
struct context { char *at; bool no_alloc; };
struct graph { struct tensor *node[16]; int n; };
typedef bool callback(struct tensor *, bool, void *);
struct sched { callback *cb; void *data; };
struct params { size_t mem_size; void *mem; bool no_alloc; };

API size_t ggml_tensor_overhead(void) { return 32 + sizeof(struct tensor); }
API const char *ggml_get_name(const struct tensor *t) { return t->name; }
API void *ggml_get_data(const struct tensor *t) { return t->data; }
API const char *ggml_op_name(int op) { return op_names[op]; }
API const char *ggml_op_desc(const struct tensor *t) { return t->op == UNARY ? "SILU" : op_names[t->op]; }
API const char *ggml_type_name(int type) { return type_of[type].name; }
API size_t ggml_type_size(int type) { return type_of[type].size; }
API int64_t ggml_blck_size(int type) { return type_of[type].block; }
API size_t ggml_nbytes(const struct tensor *t)
{
    size_t n = type_of[t->type].block == 1 ? type_of[t->type].size + (size_t)(t->ne[0] - 1) * t->nb[0] : (size_t)(t->ne[0] / type_of[t->type].block) * t->nb[0];
    int i;

    for (i = 1; i < 4; i++)
        n += (size_t)(t->ne[i] - 1) * t->nb[i];
    return n;
}
API const char *ggml_version(void) { return "0.fake"; }
API const char *ggml_backend_buffer_name(struct buffer *b) { return b->name; }
API bool ggml_backend_buffer_is_host(struct buffer *b) { return b->host; }
API int ggml_backend_buffer_get_usage(struct buffer *b) { return b->usage; }
API void ggml_backend_buffer_free(struct buffer *b) { free(b); }
API struct buffer *ggml_backend_cpu_buffer_from_ptr(void *p, size_t n)
{
    struct buffer *b = calloc(1, sizeof *b);

    (void)p, (void)n;
    *b = (struct buffer){"CPU", true, 0};
    return b;
}
API int ggml_backend_tensor_alloc(struct buffer *b, struct tensor *t, void *at)
{
    t->buffer = b;
    t->data = at;
    return 0;
}
API struct context *ggml_init(struct params p)
{
    struct context *c = p.mem;

    *c = (struct context){(char *)p.mem + 64, p.no_alloc};
    return c;
}
API void ggml_free(struct context *c) { (void)c; }

static void *room(struct context *c, size_t n)
{
    void *p = c->at;

    c->at += (n + 63) / 64 * 64;
    memset(p, 0, n);
    return p;
}

API struct tensor *ggml_new_tensor_4d(struct context *c, int type, int64_t a, int64_t b, int64_t d, int64_t e)
{
    struct tensor *t = room(c, sizeof *t);
    int64_t ne[4] = {a, b, d, e};
    int i;

    t->type = type;
    memcpy(t->ne, ne, sizeof ne);
    t->nb[0] = type_of[type].size;
    t->nb[1] = t->nb[0] * (size_t)(a / type_of[type].block);
    for (i = 2; i < 4; i++)
        t->nb[i] = t->nb[i - 1] * (size_t)ne[i - 1];
    if (!c->no_alloc)
        t->data = room(c, t->nb[3] * (size_t)e);
    return t;
}
API struct tensor *ggml_set_name(struct tensor *t, const char *name)
{
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}
static struct tensor *result(struct context *c, int op, int64_t n, int64_t m, struct tensor *a, struct tensor *b)
{
    struct tensor *t = ggml_new_tensor_4d(c, F32, n, m, 1, 1);

    t->op = op;
    t->src[0] = a;
    t->src[1] = b;
    return t;
}
API struct tensor *ggml_mul_mat(struct context *c, struct tensor *a, struct tensor *b) { return result(c, MUL_MAT, a->ne[1], b->ne[1], a, b); }
API struct tensor *ggml_scale(struct context *c, struct tensor *a, float f)
{
    struct tensor *t = result(c, SCALE, a->ne[0], a->ne[1], a, NULL);

    memcpy(t->op_params, &f, sizeof f);
    return t;
}
API struct tensor *ggml_view_1d(struct context *c, struct tensor *a, int64_t n, size_t offset)
{
    struct tensor *t = result(c, VIEW, n, 1, a, NULL);

    t->view_src = a;
    t->view_offs = offset;
    t->data = (char *)a->data + offset;
    return t;
}
API struct graph *ggml_new_graph_custom(struct context *c, size_t n, bool grads) { (void)n, (void)grads; return room(c, sizeof(struct graph)); }
API void ggml_build_forward_expand(struct graph *g, struct tensor *t)
{
    t->flags |= 16;
    g->node[g->n++] = t;
}
API struct tensor *ggml_graph_node(struct graph *g, int i) { return g->node[i]; }
API int ggml_graph_n_nodes(struct graph *g) { return g->n; }

/* ---- the scheduler ------------------------------------------------------------------------- */

/* It computes a graph in two splits, and each split in pieces if there is a callback, as
 * ggml_backend_sched_compute_splits does. */

static __thread bool fails, throws;
static __thread jmp_buf out;

static float *f32(const struct tensor *t, int64_t row) { return (float *)(void *)((char *)t->data + (size_t)row * t->nb[1]); }

static bool compute(struct tensor *t)
{
    int64_t i, j, k;

    if (!(t->flags & 16) || t->op == VIEW || t->op == NONE)
        return true;
    if (throws && t->op == UNARY)
        longjmp(out, 1);
    if (fails && t->op == UNARY)
        return false;
    if (t->op == SET_ROWS) {
        for (j = 0; j < t->src[0]->ne[1]; j++)
            memcpy(f32(t, ((int64_t *)t->src[1]->data)[j]), f32(t->src[0], j), (size_t)t->ne[0] * sizeof(float));
        return true;
    }
    for (j = 0; j < t->ne[1]; j++)
        for (i = 0; i < t->ne[0]; i++) {
            float *to = f32(t, j) + i;

            if (t->op == ADD)
                *to = f32(t->src[0], j)[i] + f32(t->src[1], 0)[i];
            else if (t->op == GET_ROWS)
                *to = f32(t->src[0], ((int32_t *)t->src[1]->data)[j])[i];
            else if (t->op == UNARY)
                *to = f32(t->src[0], j)[i] * 2;
            else if (t->src[0]->type == Q4_0) /* these weights cannot be read */
                *to = (float)(i + 10 * j);
            else
                for (k = 0, *to = 0; k < t->src[0]->ne[0]; k++)
                    *to += f32(t->src[0], i)[k] * f32(t->src[1], j)[k];
        }
    return true;
}

static bool piece(struct graph *g, int from, int to)
{
    for (; from <= to; from++)
        if (!compute(g->node[from]))
            return false;
    return true;
}

static int split(struct sched *s, struct graph *g, int from, int to)
{
    int j, j0;

    for (j0 = from; j0 < to; j0 = j + 1) {
        bool need = !s->cb || s->cb(g->node[j0], true, s->data);

        for (j = s->cb ? j0 : to - 1; !need && j < to - 1;)
            need = s->cb(g->node[++j], true, s->data);
        if (!piece(g, j0, j))
            return -1;
        if (s->cb && need && !s->cb(g->node[j], false, s->data))
            break;
    }
    return 0;
}

API int ggml_backend_sched_graph_compute_async(struct sched *s, struct graph *g)
{
    int rc = split(s, g, 0, g->n / 2);

    return rc ? rc : split(s, g, g->n / 2, g->n);
}
API void ggml_backend_sched_set_eval_callback(struct sched *s, callback *cb, void *data)
{
    s->cb = cb;
    s->data = data;
}
API void ggml_backend_sched_free(struct sched *s) { free(s); }

/* ---- the model ------------------------------------------------------------------------------- */

enum { K = 8, N = 6, CELLS = 5, LONG = 600, WIDE = 32, ROWS = 16, MAX_M = 3 };

static struct buffer weights = {"CPU_Mapped", true, 1}, plain = {"CPU", true, 0}, repacked = {"CPU_REPACK", false, 1}, gpu = {"GPU0", false, 0};
static struct { bool own, stop, gpu, fail, leap; long asked, shown, total; pthread_mutex_t lock; } mode = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool own_callback(struct tensor *t, bool ask, void *data)
{
    bool mine = t->name[0] && (t->name[strlen(t->name) - 1] & 1);

    (void)data;
    pthread_mutex_lock(&mode.lock);
    mode.asked += ask;
    mode.shown += !ask;
    mode.total += !ask && !mine;        /* shown a node that it did not ask for */
    pthread_mutex_unlock(&mode.lock);
    return ask ? mine : !mode.stop;
}

struct model { struct tensor *where, *v, *set, *in, *ids, *bias, *q, *sum, *cache, *kq, *act, *up, *lost; struct graph *g; };

static struct tensor *named_tensor(struct tensor *t, struct buffer *b, const char *name, float first)
{
    int64_t i;

    t->buffer = b;
    for (i = 0; t->type == F32 && i < t->ne[0] * t->ne[1]; i++)
        ((float *)t->data)[i] = first + (float)(i % 7);
    return ggml_set_name(t, name);
}

static void build(struct model *m, struct context *c, int rows)
{
    struct buffer *act = mode.gpu ? &gpu : &plain;
    int i;
    struct tensor *table = named_tensor(ggml_new_tensor_4d(c, F32, K, ROWS, 1, 1), &weights, "token_embd.weight", 1), *view, *wq, *keys, *wide, *w4;

    wq = named_tensor(ggml_new_tensor_4d(c, F32, K, N, 1, 1), &weights, "blk.0.attn_q.weight", 2); /* at the same address in every graph */
    m->g = ggml_new_graph_custom(c, 16, false);
    m->ids = named_tensor(ggml_new_tensor_4d(c, I32, rows, 1, 1, 1), &plain, "inp_tokens", 0);
    ggml_build_forward_expand(m->g, m->in = named_tensor(result(c, GET_ROWS, K, rows, table, m->ids), act, "embd", 0));
    ggml_build_forward_expand(m->g, view = named_tensor(result(c, VIEW, K, rows, m->in, NULL), act, "embd (view)", 0));
    view->data = m->in->data;
    view->view_src = m->in;
    ggml_build_forward_expand(m->g, m->q = named_tensor(ggml_mul_mat(c, wq, view), act, "Qcur-0", 0));
    m->bias = named_tensor(ggml_new_tensor_4d(c, F32, N, 1, 1, 1), &weights, "blk.0.attn_q.bias", 3);
    ggml_build_forward_expand(m->g, m->sum = named_tensor(result(c, ADD, N, rows, m->q, m->bias), act, "Qbias-0", 0));
    m->sum->data = m->q->data;         /* in place, as the allocator does it */
    m->cache = named_tensor(ggml_new_tensor_4d(c, F32, 2 * N, CELLS, 1, 1), &plain, "cache_k_l0", 4);
    keys = named_tensor(ggml_new_tensor_4d(c, F32, N, CELLS, 1, 1), &plain, "k-0", 4);
    keys->data = m->cache->data;
    keys->view_src = m->cache;
    keys->nb[1] = m->cache->nb[1], keys->nb[2] = keys->nb[3] = CELLS * m->cache->nb[1];
    ggml_build_forward_expand(m->g, m->kq = named_tensor(ggml_mul_mat(c, keys, m->sum), act, "kq-0", 0));
    wide = named_tensor(ggml_new_tensor_4d(c, F32, WIDE, rows, 1, 1), act, "ffn_inp-0", 1);
    w4 = named_tensor(ggml_new_tensor_4d(c, Q4_0, WIDE, 3, 1, 1), &repacked, "blk.0.ffn_up.weight", 0);
    w4->data = (void *)16;             /* reading there is a fault */
    ggml_build_forward_expand(m->g, m->up = named_tensor(ggml_mul_mat(c, w4, wide), act, "ffn_up-0", 0));
    ggml_build_forward_expand(m->g, m->lost = named_tensor(ggml_mul_mat(c, wq, view), act, "left out", 0));
    m->lost->flags = 0;                /* in the graph, but not to be computed */
    ggml_build_forward_expand(m->g, m->act = named_tensor(result(c, UNARY, CELLS, rows, m->kq, NULL), act, "act-0", 0));
    m->v = named_tensor(ggml_new_tensor_4d(c, F32, K, LONG, 1, 1), &plain, "cache_v_l0", 5);
    m->where = named_tensor(ggml_new_tensor_4d(c, I64, rows, 1, 1, 1), &plain, "inp_cells", 0);
    for (i = 0; i < rows; i++)
        ((int64_t *)m->where->data)[i] = 299 + rows - 1 - i;
    ggml_build_forward_expand(m->g, m->set = named_tensor(result(c, SET_ROWS, K, LONG, m->in, m->where), act, "cache_v_l0 (view)", 0));
    m->set->src[2] = m->set->view_src = m->v;
    m->set->data = m->v->data;
    named_tensor(m->v, &plain, "cache_v_l0", 5);
    m->act->op_params[0] = 10;
    m->act->data = m->kq->data;
}

/* Compute every result again from its formula; returns how many differ. */
static long check(const struct model *m, int rows)
{
    float q[N], want;
    long wrong = 0;
    int i, j, k;

    for (j = 0; j < rows; j++) {
        for (i = 0; i < N; i++) {
            for (k = 0, q[i] = 0; k < K; k++)
                q[i] += (2 + (float)((i * K + k) % 7)) * (1 + (float)((((int32_t *)m->ids->data)[j] * K + k) % 7));
            q[i] += 3 + (float)(i % 7);
            wrong += f32(m->sum, j)[i] != q[i];
        }
        for (i = 0; i < CELLS; i++) {
            for (k = 0, want = 0; k < N; k++)
                want += (4 + (float)((i * 2 * N + k) % 7)) * q[k];
            wrong += f32(m->act, j)[i] != want * (mode.fail ? 1 : 2);
        }
        for (i = 0; i < 3; i++)
            wrong += f32(m->up, j)[i] != (float)(i + 10 * j);
        for (k = 0; k < K && !mode.fail; k++)
            wrong += f32(m->v, 299 + rows - 1 - j)[k] != f32(m->in, j)[k];
    }
    return wrong;
}

/* llama.cpp may reuse a graph: it then does not set its callback again. */
static int compute_again(struct sched *s, struct graph *g)
{
    throws = true;
    if (!setjmp(out))
        ggml_backend_sched_graph_compute_async(s, g);
    throws = false;
    return ggml_backend_sched_graph_compute_async(s, g);
}

static long graphs(int n)
{
    static const size_t arena = 1 << 20;
    char *memory = malloc(arena);
    struct sched *s = calloc(1, sizeof *s);
    long wrong = 0;
    int i, j;

    fails = mode.fail;
    for (i = 0; i < n; i++) {
        int rows = 1 + i % MAX_M, rc;
        struct model m;

        build(&m, ggml_init((struct params){arena, memory, false}), rows);
        for (j = 0; j < rows; j++)
            ((int32_t *)m.ids->data)[j] = (i + j) % ROWS;
        ggml_backend_sched_set_eval_callback(s, mode.own ? own_callback : NULL, &mode);
        rc = mode.leap ? compute_again(s, m.g) : ggml_backend_sched_graph_compute_async(s, m.g);
        wrong += rc != (mode.fail ? -1 : 0);
        wrong += s->cb != (mode.own ? own_callback : NULL);
        if (!mode.stop)
            wrong += check(&m, rows);
        if (i % 2) {                   /* a new scheduler, perhaps at the same address */
            ggml_backend_sched_free(s);
            s = calloc(1, sizeof *s);
        }
    }
    ggml_backend_sched_free(s);
    ggml_backend_sched_free(NULL);     /* allowed, does nothing */
    free(memory);
    return wrong;
}

static void *thread(void *n) { return (void *)graphs(*(int *)n); }

API long fake_command(const char *line)
{
    pthread_t id[8];
    long wrong = 0;
    void *one;
    int t, n, i;

    if (sscanf(line, "graphs %d", &n) == 1)
        return graphs(n) + mode.total;
    if (sscanf(line, "threads %d %d", &t, &n) == 2 && t <= 8) {
        for (i = 0; i < t; i++)
            pthread_create(&id[i], NULL, thread, &n);
        for (i = 0; i < t; i++) {
            pthread_join(id[i], &one);
            wrong += (long)one;
        }
        return wrong;
    }
    mode.own = strncmp(line, "noown", 5) && (mode.own || !strncmp(line, "own", 3) || !strncmp(line, "stop", 4));
    mode.stop = !strncmp(line, "stop", 4);
    mode.gpu = !strncmp(line, "gpu", 3);
    mode.fail = !strncmp(line, "fail", 4);
    mode.leap = !strncmp(line, "throw", 5);
    return 0;
}
