/* sample.cl - a kernel for AMD by plain clang, without ROCm; it reads an argument that the runtime adds, so that there are hidden ones.
 * SPDX-License-Identifier: Apache-2.0 */
__kernel __attribute__((reqd_work_group_size(64, 2, 1))) void scale(__global float *y, float by, __local float *scratch)
{
    const __constant long *hidden = (const __constant long *)__builtin_amdgcn_implicitarg_ptr();

    scratch[__builtin_amdgcn_workitem_id_x()] = by;
    y[hidden[0] + __builtin_amdgcn_workgroup_id_x()] *= scratch[0];
}
