/* tap_ggml.c - the front for llama.cpp: ggml's official eval callback, set only around graphs that
 * are recorded.
 * SPDX-License-Identifier: Apache-2.0
 *
 * llama.cpp computes each batch by one call of ggml_backend_sched_graph_compute_async(), which goes
 * through the PLT: one call is one step. The graph of a recorded step runs with our callback; all
 * other graphs run without it. With a callback the scheduler computes a graph in pieces: it asks
 * for each node whether the callback wants it, computes up to the first node that is wanted, then
 * calls again. So after a piece that ends with a MUL_MAT its inputs are still there. With --all-ops
 * every node is a piece of its own, and inputs are copied when the scheduler asks for the node,
 * since ops may work in place. A callback of the server's own is called from ours, and is set again
 * after the graph. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "recorder/tap/ggml/tap_ggml_check.h"
#include "recorder/tap/ggml/tap_ggml_node.h"
#include "recorder/tap/core/tap.h"

#define HOSTS 4                        /* copies of ggml in one process */
#define APP_CALLBACKS 64                      /* schedulers with a callback of the server's own */

/* ---- the copies of ggml ---------------------------------------------------------------------- */

struct host {
    _Atomic(td_ggml_compute *) compute;     /* NULL: free */
    _Atomic bool checked;              /* fn and wrong are valid */
    struct tap_ggml_host fn;
    const char *wrong; /* NULL: its tensors can be read; else a sentence, which may lie in why */
    char why[160];
};
static struct host hosts[HOSTS];
static atomic_flag checking = ATOMIC_FLAG_INIT;
static _Atomic uint64_t steps;

static struct tap_symbol compute_symbol = {.name = "ggml_backend_sched_graph_compute_async"};
static struct tap_symbol set_symbol = {.name = "ggml_backend_sched_set_eval_callback"};
static struct tap_symbol free_symbol = {.name = "ggml_backend_sched_free"};

static void check_host(struct host *h, td_ggml_compute *compute)
{
    void *library = tap_real_library((const void *)compute, NULL, 0);

    h->wrong = library ? tap_ggml_check(&h->fn, library, h->why, sizeof h->why)
                       : "its library cannot be opened";
    if (library)
        dlclose(library);
    atomic_store(&h->compute, compute);
    atomic_store_explicit(&h->checked, true, memory_order_release);
}

/* The copy of ggml that this function belongs to; it is checked at its first call, which allocates
 * inside of ggml. NULL: its tensors cannot be read, or another thread checks a copy now. Keeps
 * errno. */
static struct host *host_of(td_ggml_compute *compute)
{
    int i, e = errno;
    struct host *h = NULL;

    for (i = 0; i < HOSTS && atomic_load_explicit(&hosts[i].checked, memory_order_acquire); i++)
        if (atomic_load_explicit(&hosts[i].compute, memory_order_relaxed) == compute)
            return hosts[i].wrong ? NULL : &hosts[i];
    if (atomic_flag_test_and_set(&checking))
        return NULL;
    for (i = 0;
         i < HOSTS && atomic_load(&hosts[i].checked) && atomic_load(&hosts[i].compute) != compute;
         i++)
        ;
    if (i < HOSTS) {
        h = &hosts[i];
        if (!atomic_load(&h->checked))
            check_host(h, compute);
    }
    atomic_flag_clear(&checking);
    errno = e;
    return h && !h->wrong ? h : NULL;
}

static bool describe(char *library, char *build, size_t n)
{
    const struct host *h = &hosts[0];
    const char *(*version)(void), *(*commit)(void);
    void *handle;

    library[0] = build[0] = '\0';
    if (!atomic_load_explicit(&h->checked, memory_order_acquire))
        return false;
    handle = tap_real_library((const void *)atomic_load(&h->compute), library, n);
    version = handle ? (const char *(*)(void))dlsym(handle, "ggml_version") : NULL;
    commit = handle ? (const char *(*)(void))dlsym(handle, "ggml_commit") : NULL;
    snprintf(build, n, "ggml %s %s%s%s", version ? version() : "of unknown version",
             commit ? commit() : "", h->wrong ? "; its GEMMs cannot be recorded: " : "",
             h->wrong ? h->wrong : "");
    if (handle)
        dlclose(handle);
    return true;
}

TAP_FRONT(ggml) = {.name = "ggml", .describe = describe};

/* ---- the server's own callbacks -------------------------------------------------------------- */

/* A scheduler with a callback of the server's own. One thread at a time uses a scheduler; only the
 * table is shared. A scheduler without an entry has no callback. */
struct app_callback {
    _Atomic(struct td_ggml_sched *) sched;
    td_ggml_callback *callback;
    void *data;
};
static struct app_callback app_callbacks[APP_CALLBACKS];
static _Atomic bool table_was_full; /* a callback found no room: from then on nothing is recorded */

static struct app_callback *app_callback_of(const struct td_ggml_sched *sched)
{
    int i;

    for (i = 0; i < APP_CALLBACKS; i++)
        if (atomic_load_explicit(&app_callbacks[i].sched, memory_order_acquire) == sched)
            return &app_callbacks[i];
    return NULL;
}

static void app_callback_forget(const struct td_ggml_sched *sched)
{
    struct app_callback *o = app_callback_of(sched);

    if (o)
        atomic_store_explicit(&o->sched, NULL, memory_order_release);
}

static void app_callback_set(struct td_ggml_sched *sched, td_ggml_callback *callback, void *data)
{
    struct td_ggml_sched *none;
    int i;

    app_callback_forget(sched);
    if (!callback)
        return;
    for (i = 0; i < APP_CALLBACKS; i++) {
        none = NULL;
        if (atomic_load(&app_callbacks[i].sched) ||
            !atomic_compare_exchange_strong(&app_callbacks[i].sched, &none, sched))
            continue;
        app_callbacks[i].callback = callback; /* no other thread looks for this scheduler */
        app_callbacks[i].data = data;
        return;
    }
    atomic_store(&table_was_full, true);
}

/* ---- a graph that is recorded ---------------------------------------------------------------- */

/* The scheduler's way through one graph. */
struct walk {
    const struct tap_ggml_host *host;
    td_ggml_callback *app;                  /* the server's own, or NULL */
    void *app_data;
    bool all;                          /* ops of all kinds are wanted */
    bool ours, app_wants;              /* the node at hand is wanted by us, by the server */
    bool is_open;                      /* the node at hand is being recorded */
    struct tap_open_call open;
};

/* The graph that this thread computes. An exception may leave it: then this stays, and our callback
 * too, until the same scheduler is used again. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    struct td_ggml_sched *sched;            /* NULL: none */
    struct walk w;
} watched;

static void begin(struct walk *w, const struct td_ggml_tensor *node)
{
    struct tap_call call;
    struct tap_ggml_words words;

    if (tap_ggml_describe(w->host, node, &call, &words))
        w->is_open = tap_call_begin(&w->open, &call);
    else
        tap_call_skip_unreadable();
}

static void end(struct walk *w, bool ok)
{
    if (w->is_open)
        /* not measured: run alone between two synchronisations, a node takes a different time */
        tap_call_end(&w->open, ok, -1);
    w->is_open = false;
}

/* The scheduler asks: is this node wanted? */
static bool wants_node(struct walk *w, struct td_ggml_tensor *node)
{
    w->ours = w->all ? tap_ggml_computes(w->host, node) : tap_ggml_is_gemm(w->host, node);
    w->app_wants = w->app && w->app(node, true, w->app_data);
    if (w->ours && w->all)
        begin(w, node);
    return w->ours || w->app_wants;
}

static bool on_node(struct td_ggml_tensor *node, bool ask, void *walk)
{
    struct walk *w = walk;

    if (w != &watched.w || !watched.sched)
        return !ask; /* our callback was left behind by an exception: want nothing, go on */
    if (ask)
        return wants_node(w, node);
    if (w->ours && !w->all)
        begin(w, node);
    end(w, true);
    /* false stops the graph: only the server may do that */
    return w->app_wants ? w->app(node, false, w->app_data) : true;
}

/* M of the step: rows of the first node, which in a language model looks up the embeddings of the
 * tokens. */
static int64_t rows_of(const struct tap_ggml_host *h, struct td_ggml_graph *graph)
{
    return h->graph_n_nodes(graph) > 0 ? h->graph_node(graph, 0)->ne[1] : 0;
}

static uint64_t count_ops(const struct tap_ggml_host *h, struct td_ggml_graph *graph, bool all)
{
    int i, n = h->graph_n_nodes(graph);
    uint64_t found = 0;

    for (i = 0; i < n; i++) {
        const struct td_ggml_tensor *t = h->graph_node(graph, i);

        found += all ? tap_ggml_computes(h, t) : tap_ggml_is_gemm(h, t);
    }
    return found;
}

/* Take our callback out of the scheduler, if this thread has set it; the same mends what an
 * exception left. */
static void unwatch(const struct td_ggml_sched *sched)
{
    const struct app_callback *o;

    if (!sched || watched.sched != sched)
        return;
    o = app_callback_of(sched); /* looked up again: the server may have set another one */
    end(&watched.w, false);            /* an open node has failed */
    watched.w.host->backend_sched_set_eval_callback(watched.sched, o ? o->callback : NULL,
                                                    o ? o->data : NULL);
    watched.sched = NULL;
}

static int compute_watched(const struct host *h, struct td_ggml_sched *sched,
                           struct td_ggml_graph *graph)
{
    const struct app_callback *o = app_callback_of(sched);
    int status;

    watched.w = (struct walk){.host = &h->fn,
                              .app = o ? o->callback : NULL,
                              .app_data = o ? o->data : NULL,
                              .all = tap_wants_all_kinds()};
    watched.sched = sched;
    h->fn.backend_sched_set_eval_callback(sched, on_node, &watched.w);
    status = atomic_load(&h->compute)(sched, graph);
    unwatch(sched);
    return status;
}

static int compute_armed(const struct host *h, td_ggml_compute *compute,
                         struct td_ggml_sched *sched, struct td_ggml_graph *graph)
{
    tap_step_begin_rows(atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed),
                        rows_of(&h->fn, graph));
    if (tap_call_is_wanted() && !watched.sched &&
        !atomic_load_explicit(&table_was_full, memory_order_relaxed))
        return compute_watched(h, sched, graph);
    tap_call_skip(count_ops(&h->fn, graph, tap_wants_all_kinds()), 0);
    return compute(sched, graph);
}

/* ---- the functions that llama.cpp calls ------------------------------------------------------ */

TAP_EXPORT td_ggml_compute ggml_backend_sched_graph_compute_async;
TAP_EXPORT td_ggml_set_callback ggml_backend_sched_set_eval_callback;
TAP_EXPORT td_ggml_free_sched ggml_backend_sched_free;

int ggml_backend_sched_graph_compute_async(struct td_ggml_sched *sched, struct td_ggml_graph *graph)
{
    td_ggml_compute *compute =
        (td_ggml_compute *)tap_real_find(&compute_symbol, __builtin_return_address(0));
    const struct host *h;

    if (!compute)
        return TD_GGML_FAILED;
    h = host_of(compute);
    unwatch(sched);
    tap_step_mark_thread();
    tap_start_if_cold();
    return h && tap_armed() ? compute_armed(h, compute, sched, graph) : compute(sched, graph);
}

void ggml_backend_sched_set_eval_callback(struct td_ggml_sched *sched, td_ggml_callback *callback,
                                          void *data)
{
    td_ggml_set_callback *set =
        (td_ggml_set_callback *)tap_real_find(&set_symbol, __builtin_return_address(0));

    app_callback_set(sched, callback, data);
    if (set)
        set(sched, callback, data);
}

void ggml_backend_sched_free(struct td_ggml_sched *sched)
{
    td_ggml_free_sched *real =
        (td_ggml_free_sched *)tap_real_find(&free_symbol, __builtin_return_address(0));

    unwatch(sched);
    app_callback_forget(sched);
    if (real)
        real(sched);
}
