/* m_class.c - classes of M.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/m_class.h"

int td_m_class(int64_t m)
{
    return m <= 1 ? 0 : m <= 8 ? 1 : m <= 24 ? 2 : m <= 50 ? 3 : m <= 512 ? 4 : 5;
}

const char *td_m_class_name(int c)
{
    static const char *const NAMES[TD_M_CLASSES] = {"M=1", "M=2-8", "M=9-24", "M=25-50", "M=51-512", "M>512"};

    return c >= 0 && c < TD_M_CLASSES ? NAMES[c] : "M=?";
}
