/* lib_gptq_image.c - a host library with GPU code where nvcc puts it: two containers, of which one has the kernels that lib_cuda_model.so launches.
 * SPDX-License-Identifier: Apache-2.0 */
__asm__(".section .nv_fatbin,\"a\"\n.balign 16\n.incbin \"tests/unit/data/gptq_other.fatbin\"\n.balign 16\n.incbin \"tests/unit/data/gptq_like.fatbin\"\n.previous\n");

int gptq_image_is_here(void); /* a name, for a library without any is none to some linkers */
int gptq_image_is_here(void)
{
    return 1;
}
