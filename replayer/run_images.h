/* run_images.h - take the outputs of a run out of the memory that the build's process shares.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_RUN_IMAGES_H
#define TD_REPLAYER_RUN_IMAGES_H

#include "replayer/build_process.h"

/* Copy the outputs, then compare the copies: the build's process may go on writing, and what is judged must be what was
 * compared. Outputs that are equal to the first lie where that does, for most kernels give the same each time.
 *   from : [repeats] images of `size` bytes, td_proto_image_stride(size) apart
 *   res  : images, memory and repeats are filled
 * TD_ENOMEM: nothing is filled. One image more than there are different ones needs room meanwhile. */
int td_run_images_take(const void *from, size_t size, int repeats, struct td_run_result *res, struct td_error *err);

#endif
