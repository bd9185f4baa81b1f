/* nearest.c - "did you mean": edit distance of short words.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/nearest.h"

#include <string.h>

#define LONGEST 60
#define FAR 99

static int least(int a, int b)
{
    return a < b ? a : b;
}

int td_nearest_distance(const char *given, const char *word)
{
    int rows[3][LONGEST + 1], la = (int)strlen(given), lb = (int)strlen(word), i, j;

    if (la > LONGEST || lb > LONGEST)
        return FAR;
    if (la >= 3 && la < lb && !strncmp(given, word, (size_t)la))
        return 1;
    for (j = 0; j <= lb; j++)
        rows[0][j] = j;
    for (i = 1; i <= la; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];

        row[0] = i;
        for (j = 1; j <= lb; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1,
                           above[j - 1] + (given[i - 1] != word[j - 1]));
            if (i > 1 && j > 1 && given[i - 1] == word[j - 2] && given[i - 2] == word[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[la % 3][lb];
}

int td_nearest_fits(const char *given, int distance)
{
    int length = (int)strlen(given);

    return distance <= (length < 4 ? 1 : length < 8 ? 2 : 3) && distance < length;
}

const char *td_nearest(const char *given, const char *const *words, size_t n)
{
    const char *near = NULL;
    int best = FAR, d;
    size_t i;

    for (i = 0; i < n; i++) {
        d = td_nearest_distance(given, words[i]);
        if (d < best && td_nearest_fits(given, d)) {
            best = d;
            near = words[i];
        }
    }
    return near;
}
