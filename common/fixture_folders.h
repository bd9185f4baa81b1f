/* fixture_folders.h - find the fixtures that the user names: one, or a folder of them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_FIXTURE_FOLDERS_H
#define TD_COMMON_FIXTURE_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/fixture_pieces.h"

#define TD_FIXTURE_FOLDERS_MAX 1000
#define TD_ARTIFACTS_MARK ".tapedeck-artifacts" /* the file in a folder that `gate --artifacts` made */

struct td_fixture_folders {
    char **path; size_t n, cap;
    char **twice; size_t n_twice, cap_twice; /* a sentence for each that was named again, also by a
                                                link or by its folder, and was not added again */
    char **skipped; size_t n_skipped, cap_skipped; /* a sentence for each replay, and each folder
                                                of --artifacts, that was left out */
    char **unseen; size_t n_unseen, cap_unseen; /* a sentence for each empty folder below, each
                                                pack of another name, each pointer to a file of
                                                another kind, and each file that may not be read:
                                                nothing was taken from it */
    size_t looked_into;                      /* folders */
    /* given */
    bool without_replays;                    /* leave out replays below a folder, and its folders that
                                                --artifacts made: what gate has left beside its
                                                recordings is no baseline, neither a replay nor the
                                                cut of a bad op. Cuts elsewhere are taken */
    size_t list_max;                         /* 0: TD_FIXTURE_FOLDERS_MAX, each fixture once, and
                                                more are an error. Else a mere list is made, with
                                                every name; those beyond are counted in left_out */
    size_t left_out;
};

/* Is it a fixture that a replay wrote, as a folder or as a pack (*.tdz)? False where the manifest
 * cannot be read. */
bool td_fixture_folder_is_replay(const char *path);

/* Mark a folder as one that --artifacts made. TD_EIO: it cannot be written. */
int td_fixture_folder_mark_artifacts(const char *dir, struct td_error *err);

/* Is it a folder that holds files of a fixture? True also where the manifest is lost: such a
 * recording must not vanish out of a run in silence. */
bool td_fixture_folder_is(const char *dir);
/* The same, but a manifest alone is not enough: other programs have files of that name. */
bool td_fixture_folder_has_records(const char *dir);
/* Would writing to this path change a file of the fixture, which is a folder or a pack? Also
 * through a link, and also where the file is lost. */
bool td_fixture_folder_owns(const char *fixture, const char *path);
/* Append what `path` stands for: all fixtures and packs (*.tdz) below it, also those in folders of
 * its folders, in the order of their names, or, where there are none, the path itself. A path that
 * is a fixture is taken, whatever it is. A fixture is
 * not looked into, and is added once. Hidden ones (".x") are left out. What was planned and is not
 * there counts as a fixture, so that whoever opens it fails by name: a folder that may not be looked
 * into, one with files of a fixture and no manifest or with parts of such files
 * ("blobs.pack.6eF9c"), and a file that is a piece of a fixture (fixture_pieces.h).
 * TD_ELIMIT: too many fixtures, or folders; TD_EIO: it cannot be read; TD_ENOTFOUND: nothing
 * but what is left out; TD_ENOMEM. */
int td_fixture_folders_add(struct td_fixture_folders *l, const char *path, struct td_error *err);
/* Warn of what was named twice, left out, or not seen. */
void td_fixture_folders_say(const struct td_fixture_folders *l, const char *area);
void td_fixture_folders_release(struct td_fixture_folders *l);

#endif
