/* curl_setup.c - what all requests ask of libcurl.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/curl_setup.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static atomic_uint no_memory;

/* ---- libcurl's memory: which of its allocations failed --------------------------------------- */

static void *counted(void *p)
{
    if (!p)
        atomic_fetch_add_explicit(&no_memory, 1, memory_order_relaxed);
    return p;
}

static void *curl_malloc(size_t n)
{
    return counted(malloc(n));
}

static void *curl_calloc(size_t n, size_t size)
{
    return counted(calloc(n, size));
}

static void *curl_realloc(void *p, size_t n)
{
    return counted(realloc(p, n));
}

static char *curl_copy(const char *s)
{
    return counted(strdup(s));
}

/* OpenSSL asks with a size of 0, too, and expects NULL. */
static void *tls_malloc(size_t n, const char *file, int line)
{
    (void)file, (void)line;
    return n ? curl_malloc(n) : NULL;
}

static void *tls_realloc(void *p, size_t n, const char *file, int line)
{
    (void)file, (void)line;
    if (n)
        return curl_realloc(p, n);
    free(p);
    return NULL;
}

static void tls_free(void *p, const char *file, int line)
{
    (void)file, (void)line;
    free(p);
}

/* Where libcurl's TLS is OpenSSL, and nobody has used it yet, its allocations are counted as well: of their failures it says
 * what it says of a server's faults. */
static void count_for_tls(void)
{
    int (*set)(void *(*)(size_t, const char *, int), void *(*)(void *, size_t, const char *, int), void (*)(void *, const char *, int));

    *(void **)&set = dlsym(RTLD_DEFAULT, "CRYPTO_set_mem_functions");
    if (set)
        set(tls_malloc, tls_realloc, tls_free);
}

unsigned td_curl_no_memory(void)
{
    return atomic_load_explicit(&no_memory, memory_order_relaxed);
}

/* ---- setting up ------------------------------------------------------------------------------ */

static void curl_init_once(void)
{
    count_for_tls();
    curl_global_init_mem(CURL_GLOBAL_ALL, curl_malloc, free, curl_realloc, curl_copy, curl_calloc);
}

void td_curl_init(void)
{
    pthread_once(&curl_once, curl_init_once);
}

int td_curl_add_headers(struct curl_slist **list, const char *const *headers)
{
    static const char *const ours[] = {"Content-Type: application/json",
                                       "Accept: text/event-stream, application/json", "Expect:",
                                       NULL};
    const char *const *lists[] = {ours, headers};
    const char *const *h;
    size_t i;

    for (i = 0; i < 2; i++) {
        for (h = lists[i]; h && *h; h++) {
            struct curl_slist *more = curl_slist_append(*list, *h);

            if (!more)
                return TD_ENOMEM;
            *list = more;
        }
    }
    return TD_OK;
}

/* Make a socket, and note why that fails: libcurl reports only that it could not connect. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *at)
{
    int *no_socket = arg;
    int fd = socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);

    (void)purpose;
    if (fd < 0)
        *no_socket = errno;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

void td_curl_set_common(CURL *easy, const char *url, struct curl_slist *headers, char *why,
                        int *no_socket)
{
    *no_socket = 0;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "tapedeck/" TD_VERSION);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, no_socket);
#if CURL_AT_LEAST_VERSION(7, 85, 0)
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}
