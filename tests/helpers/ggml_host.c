/* ggml_host.c - a tiny llama.cpp server for tests of the tap: it opens a library that holds both
 * ggml and the model (lib_fake_llama.so), as a Python module may, and passes commands on.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: ggml_host LIBRARY.so
 *
 * Each line of stdin goes to the library's fake_command(). The answer is "ok WRONG": how many
 * results were wrong. "quit" ends the program. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    long (*command)(const char *) = library ? (long (*)(const char *))dlsym(library, "fake_command") : NULL;
    char line[128];

    if (!command) {
        fprintf(stderr, "ggml_host: %s\n", dlerror());
        return 2;
    }
    while (fgets(line, sizeof line, stdin) && strcmp(line, "quit\n")) {
        printf("ok %ld\n", command(line));
        fflush(stdout);
    }
    return 0;
}
