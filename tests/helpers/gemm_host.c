/* gemm_host.c - a tiny server for tests of the tap: it calls the CPU kernels of MODULE.so
 * (lib_stub_kernels.so) as commands on stdin say, and checks every result.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: gemm_host MODULE.so local|global NONCE       local, global: how dlopen opens the module
 *   steps N M       N steps of M rows through all layers
 *   ops N M         the same without td_step, in a thread of its own
 *   threads T N M   steps in T threads at once
 *   loop N M        steps in the background
 *   stop, join      end the background steps; wait for their end
 *   reload          put other weights at the same addresses
 *   delay US        each call lasts so many microseconds
 *   fork N M        a child process does steps; wait for it
 *   child N M       a child process does steps and stays
 *   reap            kill that child and wait for it
 *   closefds        close every file descriptor above 2
 *   title           write over the text of the environment, as a process title does
 *   bad             one call that the kernels refuse
 *   quit
 * The answer to each is "ok CALLS WRONG": calls made so far, wrong results so far. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/abi/td_gptq.h"

enum { LAYERS = 3, K = 64, GROUP = 32, MAX_M = 4096, PAD = 8 };

struct layer {
    int n;
    uint32_t *qweight, *qzeros;
    uint16_t *scales;
    int32_t *g_idx;
};

static struct layer layers[LAYERS];
static int (*gemm)(const struct td_gptq_gemm_args *);
static void (*step)(const struct td_step_args *);
static void (*delay)(int);
static const char *nonce;
static atomic_long calls, wrong;
static atomic_ulong next_step;
static atomic_bool stopping;

static void fill_weights(int version)
{
    int l, i;

    for (l = 0; l < LAYERS; l++) {
        struct layer *w = &layers[l];

        for (i = 0; i < K / 8 * w->n; i++)
            w->qweight[i] = (uint32_t)(l * 1000 + i + version * 77777);
        for (i = 0; i < K / GROUP * w->n / 8; i++)
            w->qzeros[i] = 0x77777777u;
        for (i = 0; i < K / GROUP * w->n; i++)
            w->scales[i] = (uint16_t)(0x2000 + i);
        for (i = 0; w->g_idx && i < K; i++)
            w->g_idx[i] = (K - 1 - i) / GROUP;
    }
}

static void make_layers(void)
{
    int l;

    for (l = 0; l < LAYERS; l++) {
        struct layer *w = &layers[l];

        w->n = 32 * (l + 1);
        w->qweight = calloc((size_t)(K / 8 * w->n), 4);
        w->qzeros = calloc((size_t)(K / GROUP * w->n / 8), 4);
        w->scales = calloc((size_t)(K / GROUP * w->n), 2);
        w->g_idx = l == 1 ? calloc(K, 4) : NULL;
    }
    fill_weights(0);
}

static void call_layer(struct layer *w, int m, uint16_t *a, uint16_t *c, unsigned seed)
{
    struct td_gptq_gemm_args g = {.struct_size = sizeof g, .m = m, .n = w->n, .k = K, .bits = 4, .group_size = GROUP, .zero_offset = 1,
                                  .a = a, .lda = K + PAD, .qweight = w->qweight, .qzeros = w->qzeros, .scales = w->scales, .g_idx = w->g_idx,
                                  .c = c, .ldc = w->n + PAD};
    int i, j, bad = 0;

    for (i = 0; i < m; i++)
        for (j = 0; j < K; j++)
            a[i * (K + PAD) + j] = (uint16_t)(seed + (unsigned)(i * K + j));
    bad = gemm(&g) != TD_KERNEL_OK;
    for (i = 0; i < m && !bad; i++)
        for (j = 0; j < w->n && !bad; j++)
            bad = c[i * (w->n + PAD) + j] != (uint16_t)(a[i * (K + PAD) + j % K] + w->qweight[j]);
    atomic_fetch_add(&calls, 1);
    atomic_fetch_add(&wrong, bad);
}

struct work { long n; int m; int with_steps; pthread_t thread; };

static void *work(void *arg)
{
    struct work *w = arg;
    uint16_t *a = calloc((size_t)w->m * (K + PAD) + 1, 2), *c = calloc((size_t)w->m * (32 * LAYERS + PAD) + 1, 2);
    long s;
    int l;

    for (s = 0; s < w->n && !atomic_load(&stopping); s++) {
        char id[2][96];
        int first = w->m > 1 ? w->m - 1 : w->m;
        struct td_step_span spans[2] = {{1, id[0], 0, first, 0, 0}, {2, id[1], first, w->m - first, 10, 1}};
        struct td_step_args args = {.struct_size = sizeof args, .n_spans = w->m > 1 ? 2 : 1, .step = atomic_fetch_add(&next_step, 1), .spans = spans};

        snprintf(id[0], sizeof id[0], "cmpl-td-%s-%llu", nonce, (unsigned long long)args.step);
        snprintf(id[1], sizeof id[1], "cmpl-somebody-else");
        if (w->with_steps)
            step(&args);
        for (l = 0; l < LAYERS; l++)
            call_layer(&layers[l], w->m, a, c, (unsigned)(args.step * 131 + (unsigned)l * 17));
    }
    free(a);
    free(c);
    return NULL;
}

static void overwrite_environment(void)
{
    char **entry;

    for (entry = environ; *entry; entry++)
        memset(*entry, 0, strlen(*entry));
}

static void run(int threads, long n, int m, int with_steps)
{
    struct work w[16];
    int i;

    for (i = 0; i < threads && i < 16; i++) {
        w[i] = (struct work){.n = n, .m = m, .with_steps = with_steps};
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (i = 0; i < threads && i < 16; i++)
        pthread_join(w[i].thread, NULL);
}

static void here(long n, int m, int with_steps)
{
    struct work w = {.n = n, .m = m, .with_steps = with_steps};

    work(&w);
}

static void call_badly(void)
{
    struct td_gptq_gemm_args g = {.struct_size = sizeof g, .m = 1, .n = 8, .k = 8, .bits = 3};

    if (gemm(&g) != TD_KERNEL_EUNSUPPORTED)
        atomic_fetch_add(&wrong, 1);
    atomic_fetch_add(&calls, 1);
}

static pid_t start_child(long n, int m, int stay)
{
    pid_t pid = fork();

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    atomic_store(&wrong, 0);
    here(n, m, 1);
    if (stay)
        pause();
    _exit(atomic_load(&wrong) != 0);
}

/* As a server does that does not know of the tap's. */
static void close_descriptors(void)
{
    int fd;

    for (fd = 3; fd < 1024; fd++)
        close(fd);
}

int main(int argc, char **argv)
{
    struct work background = {0};
    char line[256], what[32];
    void *module = argc == 4 ? dlopen(argv[1], RTLD_NOW | (strcmp(argv[2], "local") ? RTLD_GLOBAL : RTLD_LOCAL)) : NULL;
    pid_t child = 0;

    if (!module) {
        fprintf(stderr, "gemm_host: %s\n", argc == 4 ? dlerror() : "usage: gemm_host MODULE.so local|global NONCE");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no process behind */
    *(void **)&gemm = dlsym(module, "host_gemm");
    *(void **)&step = dlsym(module, "host_step");
    *(void **)&delay = dlsym(module, "host_delay");
    nonce = argv[3];
    make_layers();
    while (fgets(line, sizeof line, stdin)) {
        long a = 0, b = 0, c = 0;
        int status = 0;

        if (sscanf(line, "%31s %ld %ld %ld", what, &a, &b, &c) < 1 || !strcmp(what, "quit"))
            break;
        if (!strcmp(what, "steps"))
            here(a, (int)b, 1);
        else if (!strcmp(what, "ops"))
            run(1, a, (int)b, 0);     /* a new thread, which never called td_step */
        else if (!strcmp(what, "threads"))
            run((int)a, b, (int)c, 1);
        else if (!strcmp(what, "loop")) {
            background = (struct work){.n = a, .m = (int)b, .with_steps = 1};
            pthread_create(&background.thread, NULL, work, &background);
        } else if (!strcmp(what, "stop"))
            atomic_store(&stopping, 1);
        else if (!strcmp(what, "join")) {
            pthread_join(background.thread, NULL);
            atomic_store(&stopping, 0);
        } else if (!strcmp(what, "reload"))
            fill_weights(1);
        else if (!strcmp(what, "delay"))
            delay((int)a);
        else if (!strcmp(what, "fork")) {
            child = start_child(a, (int)b, 0);
            waitpid(child, &status, 0);
            atomic_fetch_add(&wrong, status != 0);
        } else if (!strcmp(what, "child"))
            child = start_child(a, (int)b, 1);
        else if (!strcmp(what, "reap")) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
        } else if (!strcmp(what, "title"))
            overwrite_environment();
        else if (!strcmp(what, "closefds"))
            close_descriptors();
        else if (!strcmp(what, "bad"))
            call_badly();
        printf("ok %ld %ld\n", atomic_load(&calls), atomic_load(&wrong));
        fflush(stdout);
    }
    return 0;
}
