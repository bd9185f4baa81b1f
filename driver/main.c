/* main.c - `tapedeck`: one name for all programs, as git has. `tapedeck gate ...` runs gate.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The programs lie beside it (in the tree), or in ../libexec/tapedeck/bin (installed). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/args_help.h"
#include "common/error.h"
#include "common/fs.h"
#include "common/invocation.h"
#include "common/log.h"
#include "common/nearest.h"
#include "common/streams.h"

static const struct { const char *name, *help; } COMMANDS[] = {
    {"record", "ask a running server, and keep what it said, how fast, and the inputs of its GEMMs"},
    {"replay", "the same requests on a new server, the same op inputs on a new build"},
    {"differ", "compare two fixtures: tokens, collapse, scores, ops, speed, blame"},
    {"gate", "replay and differ in one: the verdict is the exit code"},
    {"fixture", "look into fixtures, check them, repair them, pack, cut and merge them"},
};
#define N_COMMANDS (sizeof COMMANDS / sizeof *COMMANDS)

static int help(void)
{
    size_t i;

    printf("usage: tapedeck COMMAND [options]\n\n");
    td_args_help_text("Record a live LLM server, replay it on a new build, and see which kernel broke.", 0);
    printf("\ncommands:\n");
    for (i = 0; i < N_COMMANDS; i++)
        td_args_help_row(COMMANDS[i].name, COMMANDS[i].help);
    td_args_help_row("help [COMMAND]", "this text, or what COMMAND --help says");
    printf("\n");
    td_args_help_row("    --version", "version and what was built in");
    td_args_help_environment(NULL);
    printf("\nexamples:\n"
           "  tapedeck record -o good --run -- llama-server -m model.gguf --port 8000\n"
           "  tapedeck gate good --server localhost:8000 --build llama.cpp/build/bin\n"
           "  tapedeck help gate\n");
    return TD_EXIT_OK;
}

static bool is_command(const char *name)
{
    const char *names[N_COMMANDS], *near;
    size_t i;

    for (i = 0; i < N_COMMANDS; i++) {
        names[i] = COMMANDS[i].name;
        if (!strcmp(name, names[i]))
            return true;
    }
    near = td_nearest(name, names, N_COMMANDS);
    if (near)
        td_log(TD_LOG_ERROR, "driver",
               "unknown command \"%s\"; did you mean tapedeck %s? (tapedeck help lists them)", name,
               near);
    else
        td_log(TD_LOG_ERROR, "driver", "unknown command \"%s\" (tapedeck help lists them)", name);
    return false;
}

static int find_program(const char *name, char path[TD_PATH_MAX], struct td_error *err)
{
    static const char *const folders[] = {".", "../libexec/tapedeck/bin"};
    char self[TD_PATH_MAX], dir[TD_PATH_MAX];
    size_t i;
    int rc = td_fs_self_dir(self, sizeof self, err);

    for (i = 0; !rc && i < 2; i++) {
        rc = td_fs_join(dir, sizeof dir, self, folders[i], err);
        if (!rc)
            rc = td_fs_join(path, TD_PATH_MAX, dir, name, err);
        if (!rc && access(path, X_OK) == 0)
            return TD_OK;
    }
    return rc ? rc
              : td_fail(err, TD_ENOTFOUND,
                        "%s is neither beside tapedeck nor in %s; make install puts both in place",
                        name, dir);
}

/* Become the program that words[0] names. */
static int run(char **words)
{
    char path[TD_PATH_MAX], called[TD_PATH_MAX];
    struct td_error err = {0};

    if (!is_command(words[0]))
        return TD_EXIT_USAGE;
    if (!find_program(words[0], path, &err)) {
        setenv(TD_DRIVER_VARIABLE, TD_DRIVER_NAME, 1);
        snprintf(called, sizeof called, "%s%s", td_invocation_folder(), words[0]);
        words[0] = called; /* the program learns by which path the driver was called */
        execv(path, words);
        td_fail(&err, TD_EIO, "%s: cannot run: %s", path, strerror(errno));
    }
    td_log(TD_LOG_ERROR, "driver", "%s", err.msg);
    return TD_EXIT_BROKEN;
}

/* "help gate" is "gate --help"; "help fixture show" is "fixture show --help". */
static int help_about(int argc, char **argv)
{
    char option[] = "--help", *words[] = {argv[2], option, NULL, NULL};

    if (argc < 3)
        return help();
    if (argc > 3) {
        words[1] = argv[3];
        words[2] = option;
    }
    return run(words);
}

static int run_command_line(int argc, char **argv)
{
    if (argc < 2) {
        help();
        return TD_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "help"))
        return help_about(argc, argv);
    if (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))
        return help();
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
        printf("tapedeck %s\n%s\n", TD_VERSION, TD_FEATURES);
        return TD_EXIT_OK;
    }
    return run(argv + 1);
}

int main(int argc, char **argv)
{
    td_streams_begin();
    td_log_program("tapedeck");
    td_invocation_called(argv[0]);
    return td_streams_end(run_command_line(argc, argv));
}
