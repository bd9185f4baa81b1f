/* fixture_pieces.h - tell what is left of a fixture, or stands for one, from files of other kinds.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A folder that is named stands for the fixtures in it. What was one, or is to become one, may not
 * vanish out of a run in silence. */
#ifndef TD_COMMON_FIXTURE_PIECES_H
#define TD_COMMON_FIXTURE_PIECES_H

#include <stdbool.h>
#include <stddef.h>

#define TD_FIXTURE_PACK_SUFFIX ".tdz" /* of the one file that `fixture pack` makes */

enum td_piece {
    TD_PIECE_OTHER,   /* a file of another kind */
    TD_PIECE_PACK,    /* a whole pack, by its length; its checksum was not looked at */
    TD_PIECE_BROKEN,  /* a pack that is cut or damaged, what stands for a pack, or a part of a fixture's
                         file: whoever opens it fails by name */
    TD_PIECE_CLOSED,  /* nobody but others may read it: what it is cannot be said */
    TD_PIECE_POINTER, /* a pointer to a file that by its name is of another kind ("plot.png") */
};

/* The length of the path of a pack without its suffix, in capitals too ("X.TDZ"); 0: no such name. */
size_t td_fixture_pack_stem(const char *path);

/* What a file below a folder is, by its name and by how it begins:
 *   "blobs.pack.6eF9c", "x-wire.zst": a part of a fixture's file, or a file of a flattened fixture;
 *   "x.tdz.part", "x.tdz.dvc", "x.dvc" without x beside it;
 *   a pointer of git LFS or git-annex; a zstd frame that begins as a pack does, or of which so little
 *   is there that nothing can be said. */
enum td_piece td_fixture_piece(const char *path);

/* Does the folder hold parts of a fixture's files, or a manifest of another name, "manifest.json.tmp"? */
bool td_fixture_folder_holds_parts(const char *dir);

#endif
