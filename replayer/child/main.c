/* main.c - replay-child: the process that `replay` starts for each build; not meant to be run by hand.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is a program of its own because timing ops starts it anew some hundred times. Without libcurl
 * and the libraries behind it, it starts in a sixth of the time (means of 200 starts: 1.5 ms
 * without, 9 ms with). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "replayer/child/child_serve.h"

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--child"))
        return td_child_serve(atoi(argv[2]));
    fputs("replay-child: started by `replay`, not by hand\n", stderr);
    return TD_EXIT_USAGE;
}
