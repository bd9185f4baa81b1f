/* gpu_build.h - the kernels of a build that the adapters know: found by their names in the source, loaded when one is to run.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A name is looked for once, when first asked for, because a library of 500 MB has thousands of
 * containers. Not thread-safe. */
#ifndef TD_KERNELS_GPU_GPU_BUILD_H
#define TD_KERNELS_GPU_GPU_BUILD_H

#include "kernels/gpu/driver.h"
#include "kernels/gpu/geometry.h"
#include "kernels/gpucode/image.h"

struct td_gpu_build;

/* path : as for td_gpu_image_open, whose errors it returns. driver and device are borrowed and must
 * outlive the build. */
int td_gpu_build_open(const char *path, const struct td_gpu_driver *driver, void *device,
                      const struct td_gpu_facts *facts, struct td_gpu_build **out,
                      struct td_error *err);
void td_gpu_build_close(struct td_gpu_build *b);
const struct td_gpu_image *td_gpu_build_image(const struct td_gpu_build *b);

/* The kernels named `identifier` that run on the device and whose parameters an adapter knows. Returns
 * how many; *offers is valid until close. 0: none, and why[size] describes what there is instead (a
 * kernel of that name with other parameters), or is "". TD_ENOMEM: it could not look; why says so, too. */
int td_gpu_build_offers(struct td_gpu_build *b, const char *identifier,
                        const struct td_gpu_offer **offers, char *why, size_t size);
/* Load offer i of that name. The driver must report the parameters that the adapter has, if it reports
 * any. *f is valid until close. */
int td_gpu_build_function(struct td_gpu_build *b, const char *identifier, int i,
                          const struct td_gpu_function **f, struct td_error *err);

#endif
