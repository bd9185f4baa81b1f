/* uncompress.h - the text of a body that was compressed for the wire (Content-Encoding), as it comes in.
 * SPDX-License-Identifier: Apache-2.0
 *
 * gzip (RFC 1952, several members too), deflate (RFC 1950; also without its frame, as some send it), br
 * (RFC 7932), zstd (RFC 8878, several frames too; windows as RFC 9659 allows). What the bytes so far stand for is
 * handed on at once: an event of a compressed stream is there with the bytes that complete it. A few bytes can
 * stand for very many, so the output has a maximum, by itself and for the input that it comes of. */
#ifndef TD_WIRE_UNCOMPRESS_H
#define TD_WIRE_UNCOMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define TD_UNCOMPRESS_MAX_BYTES ((int64_t)256 << 20) /* what one body may stand for, and */
#define TD_UNCOMPRESS_MAX_RATIO 256                  /* so many bytes for each that came, and */
#define TD_UNCOMPRESS_FLOOR ((int64_t)1 << 20)       /* so many for few */

enum td_coding { TD_CODING_NONE, TD_CODING_GZIP, TD_CODING_DEFLATE, TD_CODING_BR, TD_CODING_ZSTD, TD_CODING_UNKNOWN };
/* What the value of a Content-Encoding is. NONE: "" or "identity"; UNKNOWN: another, or several. */
enum td_coding td_coding_of(const char *value);
/* "gzip"; "a coding that is not known". */
const char *td_coding_name(enum td_coding coding);
/* Can this build read it? */
bool td_coding_is_read(enum td_coding coding);

struct td_uncompress;
typedef void td_uncompress_fn(void *arg, const char *text, size_t n);

/* TD_ENOMEM; TD_EUNSUPPORTED: this build cannot read that coding. */
int td_uncompress_new(enum td_coding coding, struct td_uncompress **out);
void td_uncompress_free(struct td_uncompress *u);
/* Take n bytes, and hand on what they stand for, in pieces. Once it failed it takes no more.
 * TD_EPROTO: the bytes are damaged; TD_ELIMIT: they stand for more than is read; TD_ENOMEM. */
int td_uncompress_feed(struct td_uncompress *u, const void *bytes, size_t n, td_uncompress_fn *fn, void *arg);
/* May a body end here? Nothing at all is a body, too. */
bool td_uncompress_is_whole(const struct td_uncompress *u);
/* Bytes of memory that it takes now. */
size_t td_uncompress_memory(const struct td_uncompress *u);

#endif
