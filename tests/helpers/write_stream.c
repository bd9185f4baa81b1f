/* write_stream.c - replace a stream file of a fixture by the lines of stdin, for tests of what a
 * fixture may hold or lack.
 * SPDX-License-Identifier: Apache-2.0
 *
 * write_stream DIR NAME
 *   NAME    "exchanges.jsonl.zst", "ops.jsonl.zst" ...
 * The manifest is left as it is: tests/edit_fixture.py brings it in line. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "format/fixture.h"
#include "format/frames.h"
#include "format/manifest.h"
#include "format/sink.h"

static int read_lines(struct td_buf *lines, uint32_t *n)
{
    char piece[65536];
    size_t got, i;

    while ((got = fread(piece, 1, sizeof piece, stdin))) {
        td_buf_add(lines, piece, got);
        for (i = 0; i < got; i++)
            *n += piece[i] == '\n';
    }
    return lines->failed || ferror(stdin);
}

int main(int argc, char **argv)
{
    struct td_buf lines = TD_BUF_INIT(TD_FRAME_MAX_RAW), scratch = TD_BUF_INIT((size_t)1 << 30);
    struct td_frame_head head = {0};
    struct td_error err = {0};
    struct td_sink sink;
    char path[TD_PATH_MAX];
    ZSTD_CCtx *z = ZSTD_createCCtx();
    int kind = 0, rc;

    while (argc == 3 && kind < TD_FILE_COUNT && strcmp(td_file_names[kind], argv[2]))
        kind++;
    if (argc != 3 || kind == TD_FILE_COUNT || !z || read_lines(&lines, &head.records) ||
        td_fs_join(path, sizeof path, argv[1], argv[2], &err)) {
        fprintf(stderr, "write_stream DIR NAME < LINES\n");
        return 2;
    }
    head.kind = (uint16_t)(kind + 1);
    unlink(path);
    rc = td_sink_open(&sink, argv[1], argv[2], &err);
    if (!rc)
        rc = td_frame_write(&sink, z, 3, &head, lines.data, lines.len, &scratch, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.msg);
    td_sink_close(&sink);
    td_buf_release(&lines);
    td_buf_release(&scratch);
    ZSTD_freeCCtx(z);
    return rc ? 4 : 0;
}
