/* fuzz_checkpoint.c - fuzz the reader of checkpoint folders (model/checkpoint.c) and the
 * identification of weights. A folder is refused with a sentence, or all its GPTQ and AWQ layers
 * can be read. The weights that a server would hold of a layer are identified again, and the
 * reference to them gives the replayer the same bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Input: a line of config.json; a line of model.safetensors.index.json, or nothing; a line of
 * tensors (tensors.h); their bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "model/awq.h"
#include "model/checkpoint.h"
#include "model/identify/fused_layers.h"
#include "model/identify/identify_unpacked.h"
#include "replayer/weight_ref.h"
#include "tests/fuzz/fuzz_main.h"
#include "tests/fuzz/tensors.h"

static char folder[] = "/tmp/td-fuzz-XXXXXX";

/* ---- the folder ------------------------------------------------------------------------------ */

static void remove_folder(void)
{
    td_fs_remove_tree(folder, NULL);
}

static void make_folder(void)
{
    static bool made;

    if (!made && (!mkdtemp(folder) || atexit(remove_folder)))
        abort();
    made = true;
}

static void put_file(const char *name, const void *data, size_t n)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path); /* a new file is quicker than one that is written over */
    if (!n)
        return;
    f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f))
        abort();
}

static void fill_folder(struct td_fuzz_bytes in)
{
    struct td_fuzz_bytes config = td_fuzz_line(&in), index = td_fuzz_line(&in), tensors = td_fuzz_line(&in);
    struct td_buf file = TD_BUF_INIT(1 << 20);

    make_folder();
    td_fuzz_tensors(tensors, in, &file);
    put_file("config.json", config.data, config.n);
    put_file("model.safetensors.index.json", index.data, index.n);
    put_file("model.safetensors", file.data, file.len);
    td_buf_release(&file);
}

/* ---- what a server has of it ----------------------------------------------------------------- */

static void put_bits(uint32_t *words, int bits, int64_t i, unsigned v)
{
    words[i * bits / 32] |= (uint32_t)v << i * bits % 32;
}

/* The layer in GPTQ's packing; *words is what it then lies in. */
static struct td_gptq_weight as_gptq(const struct td_gptq_weight *layer, uint32_t **words)
{
    struct td_gptq_weight g = *layer;

    *words = NULL;
    if (g.awq) {
        g.qweight = *words = malloc((size_t)(g.k / 8 * g.n) * 4);
        td_awq_unpack_weight(g.k, g.n, g.awq, *words);
    }
    return g;
}

/* Its inputs from k0 and outputs [n0, n0 + n) become all inputs and the outputs from `to` on of
 * w. */
static void put_part(struct td_gptq_unpacked *w, int64_t to, const struct td_gptq_weight *layer, int64_t k0, int64_t n0, int64_t n)
{
    uint32_t *words;
    struct td_gptq_weight g = as_gptq(layer, &words);
    int64_t row = k0 * g.bits / 32, group = k0 / g.group_size, i, j;

    for (i = 0; i < w->k * g.bits / 32; i++)
        memcpy(w->qweight + i * w->n + to, g.qweight + (row + i) * g.n + n0, (size_t)n * 4);
    for (i = 0; i < w->groups; i++)
        for (j = 0; j < n; j++) {
            put_bits(w->qzeros + i * (w->n * w->bits / 32), w->bits, to + j, (unsigned)(td_gptq_zero(&g, group + i, n0 + j) - g.zero_offset));
            w->scales[i * w->n + to + j] = g.scales[(group + i) * g.n + n0 + j];
        }
    free(words);
}

static void expect_loaded(const struct td_checkpoint *ck, const struct td_weight_set *s)
{
    struct td_error err = {0};
    void *data;
    size_t size;
    int i;

    for (i = 0; i < s->n; i++) {
        if (!s->t[i].rec.ref || td_weight_ref_load(ck->tensors, ck->path, &s->t[i].rec, &data, &size, &err) || size != s->t[i].size || memcmp(data, s->t[i].data, size))
            abort();
        free(data);
    }
}

/* The parts, if all are there and fit together; the sum of their outputs, or 0. */
static int64_t find_parts(const struct td_checkpoint *ck, const struct td_fused *f, const struct td_gptq_weight **part)
{
    int64_t n = 0;

    for (int i = 0; i < f->n; i++) {
        part[i] = td_checkpoint_find(ck, f->part[i]);
        if (!part[i] || part[i]->k != part[0]->k || part[i]->group_size != part[0]->group_size || (f->n > 1 && part[i]->g_idx))
            return 0;
        n += part[i]->n;
    }
    return n;
}

/* Identify the weight that one rank of `ranks` holds of a layer, or of the layers fused into one.
 * The ranks share the inputs or the outputs. */
static void identify_share(struct td_layer_index *l, const struct td_fused *f, int ranks, bool inputs, int rank)
{
    const struct td_gptq_weight *part[TD_FUSED_PARTS], *first;
    const int ranks_n = inputs ? 1 : ranks, ranks_k = inputs ? ranks : 1;
    struct td_weight_set s = {.layers = l};
    struct td_gptq_unpacked w;
    int64_t n = find_parts(td_layer_index_checkpoint(l), f, part), at = 0;
    int i;

    first = part[0];
    if (!n || (inputs && first->g_idx) || first->groups % ranks_k ||
        td_gptq_unpacked_init(&w, first->bits, n / ranks_n, first->k / ranks_k, first->groups / ranks_k, NULL))
        return;
    w.scale_dtype = TD_DT_F16;
    w.zero_offset = first->zero_offset;
    for (i = 0; i < f->n; at += part[i++]->n / ranks_n)
        put_part(&w, at, part[i], inputs ? rank * w.k : 0, inputs ? 0 : rank * (part[i]->n / ranks_n), part[i]->n / ranks_n);
    if (first->g_idx)
        w.g_idx = memcpy(malloc((size_t)w.k * 4), first->g_idx, (size_t)w.k * 4);
    td_identify_unpacked(&s, &w, false);
    if (ranks == 1 && !s.matches)
        abort();
    if (s.matches)
        expect_loaded(td_layer_index_checkpoint(l), &s);
    td_weight_set_release(&s);
}

static void identify_all(struct td_layer_index *l, const struct td_fused *f)
{
    identify_share(l, f, 1, false, 0);
    for (int rank = 0; rank < 2; rank++) {
        identify_share(l, f, 2, false, rank);
        identify_share(l, f, 2, true, rank);
    }
}

/* ---- reading it ------------------------------------------------------------------------------ */

static void read_layer(struct td_layer_index *l, const struct td_checkpoint_layer *layer)
{
    const struct td_gptq_weight *w = &layer->weight;
    float *all = malloc((size_t)(w->k * w->n) * sizeof *all);
    uint32_t *words;
    struct td_gptq_weight g = as_gptq(w, &words);
    struct td_fused f;

    if (td_gptq_check(&g, NULL) || td_checkpoint_find(td_layer_index_checkpoint(l), layer->name) != w)
        abort();
    td_gptq_dequant_f32(&g, all);
    free(words);
    free(all);
    if (td_fused_single(layer->name, &f))
        identify_all(l, &f);
    if (td_fused_from(layer->name, &f))
        identify_all(l, &f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct td_checkpoint *ck;
    struct td_error err = {0};
    struct td_layer_index *l;
    int rc;

    fill_folder((struct td_fuzz_bytes){data, n});
    rc = td_layer_index_open(folder, &l, &err);
    if (rc != err.code || !rc != !!l || (rc && !err.msg[0]))
        abort();
    ck = rc ? NULL : td_layer_index_checkpoint(l);
    for (size_t i = 0; ck && i < ck->n_layers; i++)
        read_layer(l, &ck->layers[i]);
    td_layer_index_close(l);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/checkpoint", 3000)
