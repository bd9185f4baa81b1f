/* fixture.h - one recording on disk: write it while it happens, read it back, look blobs up.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A fixture is a directory (docs/format.md): manifest.json, wire.zst, exchanges.jsonl.zst, steps.jsonl.zst,
 * ops.jsonl.zst, ledger.jsonl.zst, blobs.pack. A stream file is a row of committed frames; a frame is a small skippable
 * zstd frame (lengths, number, checksums) followed by an ordinary zstd frame, so `zstd -dc` reads it too. */
#ifndef TD_FORMAT_FIXTURE_H
#define TD_FORMAT_FIXTURE_H

#include "format/records.h"

/* ---- writing ------------------------------------------------------------------------------------------------------- */

struct td_writer;
struct td_redact_values;

/* What must never reach the disk; all borrowed for the writer's life. Rules only add up: the values
 * of headers with a secret's name (secret_names.h: Authorization, Cookie, X-Api-Key ...) are always
 * overwritten. */
struct td_redaction {
    const char *const *headers;   /* more names, any case; NULL-terminated, or NULL */
    const char *const *sent;      /* "NAME: VALUE", sent with every request: each is a secret; NULL-terminated, or NULL */
    const char *const *shown;     /* names of those that are none; NULL-terminated, or NULL */
    struct td_redact_values *values; /* redact_values.h: searched for in place of those of `sent`, which are among them; more may
                                        be learned meanwhile. NULL: those of `sent` */
    const char *const *json_paths;/* "prompt", "messages[*].content", "choices[*].text"; NULL-terminated, or NULL */
    bool no_text;                 /* keep what harmless.def lists: ids, times, lengths; no text */
};

struct td_writer_options {
    const char *tool;             /* "record", "replay" ... for the manifest */
    const struct td_redaction *redaction; /* NULL: those headers only */
    int64_t queue_max_bytes;      /* memory between callers and the disk; 0: 256 MiB, or a quarter of
                                     td_memory_max() where that is less */
    int level;                    /* zstd level; 0: 3 for lines, 1 for blobs */
};

/* Create the directory (0700) and its files (0600), and start the writer thread. TD_EEXIST: there
 * is something already. All td_writer_* functions may be called from several threads. They copy
 * what they are given and return at once unless the queue is full: then they wait. (While the thread
 * that reads the tap's rings waits, the rings fill up, and the tap drops ops and counts them.) After
 * the first failure of the disk every later call, and close, return it. */
int td_writer_create(const char *dir, const struct td_writer_options *opt, struct td_writer **out, struct td_error *err);

/* Facts for manifest.json, merged under "server", "host", "suite", "options" ...; `value` is copied. */
int td_writer_fact(struct td_writer *w, const char *section, const char *key, const cJSON *value);
int td_writer_fact_str(struct td_writer *w, const char *section, const char *key, const char *value);
int td_writer_fact_num(struct td_writer *w, const char *section, const char *key, double value);

/* Redact the sentence in x->error as the writer will, before it is printed or becomes a fact. */
void td_writer_redact_error(struct td_writer *w, struct td_exchange *x);

int td_writer_wire(struct td_writer *w, const struct td_wire *rec);      /* the hot path: one copy into the queue */
/* Lines of JSON. TD_ENOMEM also once an allocation of this process has failed that may have been overlooked
 * (common/out_of_memory.h): what was made since may lack a member. */
int td_writer_exchange(struct td_writer *w, const struct td_exchange *x);
int td_writer_step(struct td_writer *w, const struct td_step *s);
int td_writer_op(struct td_writer *w, const struct td_op *op);
/* Store bytes under their content address (returned in *hash); equal content is stored once.
 * elem_bytes 2 asks for the byte-plane encoding of 16-bit floats, 1 for plain zstd, 0 for none.
 * The bytes are copied once, and the copy is hashed, in the caller's thread; compression happens in
 * another. */
int td_writer_blob(struct td_writer *w, const void *data, size_t n, int elem_bytes, struct td_hash *hash);
bool td_writer_has_blob(struct td_writer *w, struct td_hash hash);
/* The ledger: n things and their bytes under a dotted name ("ops.seen", "ops.dropped.budget",
 * "wire.received"). Sums end up in the manifest; a sum beyond 63 bits stays at its end, with a
 * warning. */
void td_writer_count(struct td_writer *w, const char *name, int64_t n, int64_t bytes);
/* pause: leave the cores to the server. Records only queue up, until the oldest is half a second old
 * or the queue is half full. resume: write again; returns once everything queued has been written. */
void td_writer_pause(struct td_writer *w);
void td_writer_resume(struct td_writer *w);
/* Bytes of all files so far. */
int64_t td_writer_bytes(const struct td_writer *w);
/* Commit what came so far to disk now (it is done about twice a second anyway) and wait for it. */
int td_writer_commit(struct td_writer *w, struct td_error *err);
/* Commit, write manifest.json last, free. state: "complete", "interrupted". err gets the first
 * failure. NULL is allowed. */
int td_writer_close(struct td_writer *w, const char *state, struct td_error *err);
/* Free without a manifest: what a crash leaves behind (for failures and tests). */
void td_writer_abandon(struct td_writer *w);

/* ---- reading ------------------------------------------------------------------------------------------------------- */

struct td_fixture;

/* Open a fixture: a folder, or a pack, which is unpacked into a temporary folder
 * (fixture_folder.h). TD_ENOTFOUND: no such folder, or no manifest ("fixture repair DIR" is then the next step); TD_EVERSION; TD_ECORRUPT. */
int td_fixture_open(const char *dir, struct td_fixture **out, struct td_error *err);
void td_fixture_close(struct td_fixture *fx);
const cJSON *td_fixture_manifest(const struct td_fixture *fx);   /* manifest.json; borrowed */
const char *td_fixture_id(const struct td_fixture *fx);          /* "id" of the manifest: random, unique to a recording */
const char *td_fixture_dir(const struct td_fixture *fx);         /* as td_fixture_open() was given it */
const char *td_fixture_files_dir(const struct td_fixture *fx);   /* where its files lie; of a pack not the same */

/* Streams are read from the start each time a cursor is opened; several cursors may be open at once.
 * _next: 1 = filled (release it, or pass it again: it is released first), 0 = clean end, < 0: TD_ECORRUPT (a frame
 * is bad: named in err, skipped and counted; one may read on), TD_ETRUNCATED (the last frame is incomplete; then 0),
 * TD_ELIMIT. */
enum td_stream_kind { TD_STREAM_WIRE, TD_STREAM_EXCHANGES, TD_STREAM_STEPS, TD_STREAM_OPS, TD_STREAM_LEDGER };
struct td_cursor;
int td_cursor_open(struct td_fixture *fx, enum td_stream_kind kind, struct td_cursor **out, struct td_error *err);
/* The same without an open fixture, of a folder that may have no manifest yet (repair). */
int td_cursor_open_dir(const char *dir, enum td_stream_kind kind, struct td_cursor **out, struct td_error *err);
void td_cursor_close(struct td_cursor *c);
int td_cursor_wire(struct td_cursor *c, struct td_wire *out, struct td_error *err);      /* data valid until next call */
int td_cursor_exchange(struct td_cursor *c, struct td_exchange *out, struct td_error *err);
int td_cursor_step(struct td_cursor *c, struct td_step *out, struct td_error *err);
int td_cursor_op(struct td_cursor *c, struct td_op *out, struct td_error *err);
int td_cursor_json(struct td_cursor *c, cJSON **out,
                   struct td_error *err); /* any JSONL stream, raw; caller deletes */
/* Pass over a line without reading it. 1, 0, < 0 as above; a bad frame is skipped and counted. */
int td_cursor_skip(struct td_cursor *c, struct td_error *err);
/* Where the exchange begins that was read last, and go back there: the next record that is read is that one. */
struct td_place { uint64_t frame; size_t at; };
struct td_place td_cursor_place(const struct td_cursor *c);
int td_cursor_go(struct td_cursor *c, struct td_place place, struct td_error *err); /* TD_OK, or why its frame cannot be read */
/* How many lines were read or passed over, those that could not be read included. The same lines have the same
 * numbers with every cursor. */
int64_t td_cursor_lines(const struct td_cursor *c);
int64_t td_cursor_bad_frames(const struct td_cursor *c);

/* Convenience for tools that need all of it: an array owned by the caller. Corrupt frames are skipped, counted in *bad. */
int td_fixture_exchanges(struct td_fixture *fx, struct td_exchange **out, size_t *n, size_t *bad, struct td_error *err);
int td_fixture_ops(struct td_fixture *fx, struct td_op **out, size_t *n, size_t *bad, struct td_error *err);
int td_fixture_steps(struct td_fixture *fx, struct td_step **out, size_t *n, size_t *bad, struct td_error *err);
void td_exchanges_free(struct td_exchange *x, size_t n);
void td_ops_free(struct td_op *x, size_t n);
void td_steps_free(struct td_step *x, size_t n);

/* Bytes of a blob, decoded and checked against its hash, into memory the caller frees. At most max of
 * them: td_tensor_rec_max_bytes() for a tensor's. TD_ENOTFOUND, TD_ECORRUPT, TD_ELIMIT: it has more;
 * TD_ENOMEM. Safe from several threads. */
int td_fixture_blob(struct td_fixture *fx, struct td_hash hash, uint64_t max, void **data, size_t *n, struct td_error *err);
bool td_fixture_has_blob(const struct td_fixture *fx, struct td_hash hash);

/* A sum of the ledger, 0 when there is none. */
int64_t td_fixture_ledger(const struct td_fixture *fx, const char *name);

#endif
