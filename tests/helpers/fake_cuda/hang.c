/* hang.c - a call of the driver that does not return, until it may.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/helpers/fake_cuda/state.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct { char name[48]; int left; } due;
static bool hanging;

void hang(const char *name, int n)
{
    pthread_mutex_lock(&lock);
    snprintf(due.name, sizeof due.name, "%s", name ? name : "");
    due.left = n;
    if (!name)
        hanging = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

bool is_hanging(void)
{
    bool is;

    pthread_mutex_lock(&lock);
    is = hanging;
    pthread_mutex_unlock(&lock);
    return is;
}

static void wait_until_let_go(void)
{
    while (hanging)
        pthread_cond_wait(&changed, &lock);
}

void hang_if_due(const char *name)
{
    pthread_mutex_lock(&lock);
    if (due.left && !strcmp(due.name, name) && --due.left == 0)
        hanging = true;
    if (hanging)
        wait_until_let_go();
    pthread_mutex_unlock(&lock);
}

/* A driver that hangs may do so at the end of the process as well. */
__attribute__((destructor)) static void end(void)
{
    pthread_mutex_lock(&lock);
    wait_until_let_go();
    pthread_mutex_unlock(&lock);
}

void read_hang(const char *text)
{
    char name[48];
    int n;

    if (text && sscanf(text, "%47[^:]:%d", name, &n) == 2)
        hang(name, n);
}
