/* ggml_host.c - a "llama.cpp" for tests of the tap: opens a library that holds everything, as a Python module does, and has it do what stdin says.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: ggml_host LIBRARY.so     each line goes to its fake_command(); answers "ok WRONG"; "quit" ends it. */
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
