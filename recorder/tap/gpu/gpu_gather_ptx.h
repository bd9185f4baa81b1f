/* gpu_gather_ptx.h - the text of the tap's own kernel that makes several small copies.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Parameter: struct tap_gpu_copy[TAP_GPU_COPIES] (gpu_copies.h). Grid: the last copy's `end`. A copy
 * has the blocks from the former copy's `end` on, n of them; the i-th copies rows i, i + n ... of it,
 * of which the last may be shorter.
 *   wait : TAP_GPU_GATHER_WAITS for a kernel that may begin before the one that it copies from has
 *          ended (a programmatic edge of a graph); else "" */
#ifndef TD_RECORDER_TAP_GPU_GPU_GATHER_PTX_H
#define TD_RECORDER_TAP_GPU_GPU_GATHER_PTX_H

/* Nothing is read from the device's memory before it. */
#define TAP_GPU_GATHER_WAITS "    griddepcontrol.wait;\n"

#define TAP_GPU_GATHER_PTX(version, target, name, wait)                                                                \
    ".version " version "\n" ".target " target "\n"                                                                    \
    ".address_size 64\n"                                                                                               \
    ".visible .entry " name " (\n"                                                                                     \
    "    .param .align 8 .b8 pieces[768]\n"                                                                            \
    ") {\n"                                                                                                            \
    "    .reg .pred %done;\n"                                                                                          \
    "    .reg .b16 %byte;\n"                                                                                           \
    "    .reg .b32 %x, %end, %grid, %thread, %threads, %row_bytes, %unit, %a, %b, %c, %d;\n"                           \
    "    .reg .b64 %piece, %to, %from, %bytes, %pitch, %row, %rows, %at, %left, %n, %i, %by, %s, %t, %step;\n"         \
    "    mov.u32 %x, %ctaid.x;\n"                                                                                      \
    "    mov.b64 %piece, pieces;\n"                                                                                    \
    "    ld.param.u32 %end, [%piece+40];\n"                                                                            \
    "    mov.u32 %grid, %end;\n"                                                                                       \
    "find:\n"                                                                                                          \
    "    setp.lt.u32 %done, %x, %grid;\n"                                                                              \
    "    @%done bra found;\n"                                                                                          \
    "    sub.u32 %x, %x, %grid;\n"                                                                                     \
    "    mov.u32 %a, %end;\n"                                                                                          \
    "    add.s64 %piece, %piece, 48;\n"                                                                                \
    "    ld.param.u32 %end, [%piece+40];\n"                                                                            \
    "    sub.u32 %grid, %end, %a;\n"                                                                                   \
    "    bra find;\n"                                                                                                  \
    "found:\n"                                                                                                         \
    "    ld.param.u64 %to, [%piece];\n"                                                                                \
    "    ld.param.u64 %from, [%piece+8];\n"                                                                            \
    "    ld.param.u64 %bytes, [%piece+16];\n"                                                                          \
    "    ld.param.u64 %pitch, [%piece+24];\n"                                                                          \
    "    ld.param.u32 %row_bytes, [%piece+32];\n"                                                                      \
    "    ld.param.u32 %unit, [%piece+36];\n"                                                                           \
    "    mov.u32 %thread, %tid.x;\n"                                                                                   \
    "    mov.u32 %threads, %ntid.x;\n"                                                                                 \
    "    cvt.u64.u32 %row, %x;\n"                                                                                      \
    "    cvt.u64.u32 %rows, %grid;\n"                                                                                  \
    "    cvt.u64.u32 %step, %row_bytes;\n"                                                                             \
    "    mul.wide.u32 %by, %threads, %unit;\n"                                                                         \
    "next_row:\n"                                                                                                      \
    "    mul.lo.u64 %at, %row, %step;\n"                                                                               \
    "    setp.ge.u64 %done, %at, %bytes;\n"                                                                            \
    "    @%done bra end;\n"                                                                                            \
    "    sub.u64 %left, %bytes, %at;\n"                                                                                \
    "    min.u64 %n, %left, %step;\n"                                                                                  \
    "    mul.lo.u64 %s, %row, %pitch;\n"                                                                               \
    "    add.u64 %s, %s, %from;\n"                                                                                     \
    "    add.u64 %t, %at, %to;\n"                                                                                      \
    "    mul.wide.u32 %i, %thread, %unit;\n"                                                                           \
    "    add.u64 %s, %s, %i;\n"                                                                                        \
    "    add.u64 %t, %t, %i;\n"                                                                                        \
    wait                                                                                                               \
    "next:\n"                                                                                                          \
    "    setp.ge.u64 %done, %i, %n;\n"                                                                                 \
    "    @%done bra row_done;\n"                                                                                       \
    "    setp.eq.u32 %done, %unit, 16;\n"                                                                              \
    "    @%done bra sixteen;\n"                                                                                        \
    "    setp.eq.u32 %done, %unit, 4;\n"                                                                               \
    "    @%done bra four;\n"                                                                                           \
    "    ld.global.u8 %byte, [%s];\n"                                                                                  \
    "    st.global.u8 [%t], %byte;\n"                                                                                  \
    "    bra copied;\n"                                                                                                \
    "four:\n"                                                                                                          \
    "    ld.global.u32 %a, [%s];\n"                                                                                    \
    "    st.global.u32 [%t], %a;\n"                                                                                    \
    "    bra copied;\n"                                                                                                \
    "sixteen:\n"                                                                                                       \
    "    ld.global.v4.u32 {%a, %b, %c, %d}, [%s];\n"                                                                   \
    "    st.global.v4.u32 [%t], {%a, %b, %c, %d};\n"                                                                   \
    "copied:\n"                                                                                                        \
    "    add.u64 %i, %i, %by;\n"                                                                                       \
    "    add.u64 %s, %s, %by;\n"                                                                                       \
    "    add.u64 %t, %t, %by;\n"                                                                                       \
    "    bra next;\n"                                                                                                  \
    "row_done:\n"                                                                                                      \
    "    add.u64 %row, %row, %rows;\n"                                                                                 \
    "    bra next_row;\n"                                                                                              \
    "end:\n"                                                                                                           \
    "    ret;\n"                                                                                                       \
    "}\n"

#endif
