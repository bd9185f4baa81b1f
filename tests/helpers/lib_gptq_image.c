/* lib_gptq_image.c - a host library with GPU code in section .nv_fatbin, where nvcc puts it. The
 * section holds two containers; the second has the kernels that lib_cuda_model.so launches. Test
 * 129 records that code.
 * SPDX-License-Identifier: Apache-2.0 */
__asm__(".section .nv_fatbin,\"a\"\n.balign 16\n.incbin \"tests/unit/data/gptq_other.fatbin\"\n.balign 16\n.incbin \"tests/unit/data/gptq_like.fatbin\"\n.previous\n");

int gptq_image_is_here(void); /* some linkers refuse a library without any symbol */
int gptq_image_is_here(void)
{
    return 1;
}
