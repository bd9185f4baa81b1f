/* tiny.cu - one kernel, for the corpora of the fuzzers. SPDX-License-Identifier: Apache-2.0 */
extern "C" __global__ void __launch_bounds__(64) plain(float *x, int n, bool b) { __shared__ float s[64]; s[n] = b; x[n] = s[n & 1]; }
