/* main.c - replay-child: the process that `replay` starts for each build; not meant to be run by hand.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program of its own because it is started anew some hundred times when ops are timed: without libcurl and what that
 * brings along it starts in a sixth of the time (1.5 ms, 9 ms with them: means of 200). */
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
