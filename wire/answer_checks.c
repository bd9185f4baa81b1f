/* answer_checks.c - may what a server sent be an answer at all? Its type, and the mark at its end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/answer_checks.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

bool td_answer_type_fits(const char *content_type, bool of_events)
{
    static const char *const TYPES[] = {"application/json", "text/json", "text/event-stream", "text/plain"};
    const size_t n = strcspn(content_type, "; \t");
    const size_t known = sizeof TYPES / sizeof *TYPES - !of_events;
    size_t i;

    for (i = 0; i < known; i++)
        if (strlen(TYPES[i]) == n && !strncasecmp(content_type, TYPES[i], n))
            return true;
    return !n || (n > 5 && !strncasecmp(content_type + n - 5, "+json", 5));
}

bool td_end_marks_has(const struct td_end_marks *m, const char *path)
{
    size_t i;

    for (i = 0; i < m->n; i++)
        if (!strcmp(m->path[i], path))
            return true;
    return false;
}

void td_end_marks_add(struct td_end_marks *m, const char *path)
{
    if (m->n < TD_END_MARK_PATHS && strlen(path) < TD_END_MARK_PATH && !td_end_marks_has(m, path))
        snprintf(m->path[m->n++], TD_END_MARK_PATH, "%s", path);
}
