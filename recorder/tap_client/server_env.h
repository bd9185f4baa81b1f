/* server_env.h - the environment that puts the tap into a server.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_SERVER_ENV_H
#define TD_RECORDER_TAP_CLIENT_SERVER_ENV_H

#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

/* "NAME=value" strings, NULL-terminated, fit for td_proc_options.extra_env:
 *   LD_PRELOAD             the tap, then what was set before; first a sanitizer's library, if
 *                          `program` or the tap needs it
 *   TD_TAP_DIR             the folder of the sockets
 *   CUDA_INJECTION64_PATH  by which CUDA's driver loads the tap. One that is set already, a
 *                          profiler's, is replaced: both want the same place in CUPTI
 *   TD_TAP_GRAPHS          see td_tap_client_env_graphs() */
struct td_tap_client_env { char *vars[6]; };

/* Make the environment.
 *   program : what will be started (argv[0]; looked up in PATH, a script's interpreter is
 *             followed); NULL: unknown
 * TD_ENOTFOUND: libtapedeck-tap.so is not beside the program (../lib, or TD_TAP_LIBRARY);
 * TD_EUNSUPPORTED: the program is linked statically. After an error there is nothing to release. */
int td_tap_client_env_make(const char *program, struct td_tap_client_env *out,
                           struct td_error *err);
/* Add TD_TAP_GRAPHS: the tap watches the captures of CUDA graphs (--graphs), with so many MiB of
 * the GPU's memory for copies. 0: nothing is added. */
int td_tap_client_env_graphs(struct td_tap_client_env *env, int64_t mib, struct td_error *err);
void td_tap_client_env_release(struct td_tap_client_env *env);

#define TD_TAP_CLIENT_GRAPHS_MIB 256 /* the default of --graphs */

/* Print the environment for a program that is not known yet, as lines for a shell's `eval`: export
 * LD_PRELOAD='…' and so on. graphs_mib: as for td_tap_client_env_graphs() */
int td_tap_client_env_print(int64_t graphs_mib, struct td_buf *out, struct td_error *err);

#endif
