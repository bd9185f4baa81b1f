/* accept_file.c - the file that says which findings are accepted, by whom, why and until when.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/accept_file.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "common/outfile.h"
#include "gate/run.h"

#define DAY_S 86400
#define FILE_MAX ((size_t)4 << 20)
#define ENTRIES_MAX 1000
#define LOCK_MS 5000
#define LOCK_STEP_MS 20
#define DEFAULT_NAME "tapedeck.accepted.json"

/* ---- dates ----------------------------------------------------------------------------------- */

int td_accept_parse_date(const char *text, int64_t *days, struct td_error *err)
{
    char again[TD_ACCEPT_DATE];
    struct tm t = {0};

    if (strlen(text) == TD_ACCEPT_DATE - 1 && text[4] == '-' && text[7] == '-' &&
        strspn(text, "0123456789-") == TD_ACCEPT_DATE - 1) {
        t.tm_year = atoi(text) - 1900;
        t.tm_mon = atoi(text + 5) - 1;
        t.tm_mday = atoi(text + 8);
        *days = (int64_t)timegm(&t) / DAY_S;
        td_accept_date_text(*days, again);
        if (strcmp(again, text) == 0) /* there is no 2027-02-30 */
            return TD_OK;
    }
    return td_fail(err, TD_EINVAL, "\"%.40s\" is no date; write it as 2027-01-31", text);
}

int64_t td_accept_today(void)
{
    return (int64_t)time(NULL) / DAY_S;
}

void td_accept_date_text(int64_t days, char out[TD_ACCEPT_DATE])
{
    const time_t seconds = (time_t)(days * DAY_S);
    struct tm t;

    out[0] = '\0';
    if (gmtime_r(&seconds, &t))
        strftime(out, TD_ACCEPT_DATE, "%Y-%m-%d", &t);
}

/* ---- the file -------------------------------------------------------------------------------- */

int td_accept_path(const char *policy, char *out, size_t n, struct td_error *err)
{
    const char *dot = policy ? strrchr(policy, '.') : NULL;
    int stem;

    if (!policy)
        return snprintf(out, n, "%s", DEFAULT_NAME) < (int)n
                   ? TD_OK
                   : td_fail(err, TD_ELIMIT, "no room for the path of accepted findings");
    stem = dot && !strchr(dot, '/') && dot != policy ? (int)(dot - policy) : (int)strlen(policy);
    if (snprintf(out, n, "%.*s.accepted.json", stem, policy) >= (int)n)
        return td_fail(err, TD_ELIMIT, "%.60s...: the path is too long", policy);
    return TD_OK;
}

static int check_text(const cJSON *entry, const char *key, struct td_error *err)
{
    if (*td_json_get_str(entry, key, ""))
        return TD_OK;
    return td_fail(err, TD_EINVAL, "accepted: an entry has no \"%s\" (a text)", key);
}

/* Of lane ops; older entries have none. See places.h. */
static int check_places(const cJSON *places, struct td_error *err)
{
    const cJSON *group, *ops, *place;

    if (places && !cJSON_IsObject(places))
        return td_fail(err, TD_EINVAL, "accepted: \"places\" of lane ops is no object");
    cJSON_ArrayForEach(group, places) {
        ops = td_json_get(group, "ops");
        if (!cJSON_IsObject(ops) || !(td_json_get_num(group, "judged", -1) >= 0))
            return td_fail(err, TD_EINVAL, "accepted: places of \"%.80s\" need \"judged\" and \"ops\"", group->string);
        cJSON_ArrayForEach(place, ops)
            if (!cJSON_IsString(place))
                return td_fail(err, TD_EINVAL, "accepted: a place of \"%.80s\" is no text", group->string);
    }
    return TD_OK;
}

/* Of lane ops; older entries have none. See biases.h. */
static int check_biases(const cJSON *biases, struct td_error *err)
{
    const cJSON *one;

    if (biases && !cJSON_IsArray(biases))
        return td_fail(err, TD_EINVAL, "accepted: \"biases\" of lane ops is no array");
    cJSON_ArrayForEach(one, biases)
        if (!*td_json_get_str(one, "kind", "") || !*td_json_get_str(one, "of", "") ||
            !(td_json_get_num(one, "least", -1) >= 0) || !(td_json_get_num(one, "most", -1) >= 0))
            return td_fail(err, TD_EINVAL, "accepted: a bias needs \"kind\", \"of\", \"least\" and \"most\"");
    return TD_OK;
}

/* "lanes": {"ops": {"verdict": "regressed", "notes": ["..."], "findings": {"...": 32.7}, "places": {...},
 * "biases": [...]}} */
static int check_lane(const cJSON *lane, struct td_error *err)
{
    static const char *const NAMES[] = {"tokens", "collapse", "scores", "ops", "speed"};
    const cJSON *findings = td_json_get(lane, "findings"), *notes = td_json_get(lane, "notes"), *f;
    size_t i;

    for (i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strcmp(lane->string, NAMES[i]) == 0)
            break;
    if (i == sizeof NAMES / sizeof NAMES[0])
        return td_fail(err, TD_EINVAL, "accepted: there is no lane \"%.40s\"", lane->string);
    if (!cJSON_IsArray(notes) || !cJSON_IsObject(findings) || !findings->child ||
        !*td_json_get_str(lane, "verdict", ""))
        return td_fail(err, TD_EINVAL,
                       "accepted: lane %s needs \"verdict\", \"notes\" and \"findings\"",
                       lane->string);
    cJSON_ArrayForEach(f, notes)
        if (!cJSON_IsString(f))
            return td_fail(err, TD_EINVAL, "accepted: a note of lane %s is no text", lane->string);
    cJSON_ArrayForEach(f, findings)
        if (!(td_json_num(f, -1) >= 0))
            return td_fail(err, TD_EINVAL, "accepted: finding \"%.80s\" of lane %s is no number",
                           f->string, lane->string);
    return check_places(td_json_get(lane, "places"), err) ? TD_EINVAL
                                                          : check_biases(td_json_get(lane, "biases"), err);
}

static int check_entry(const cJSON *entry, int64_t today, struct td_error *err)
{
    static const char *const TEXTS[] = {"reason", "who", "since", "until", "fixture"};
    const cJSON *lanes = td_json_get(entry, "lanes"), *lane;
    int64_t days;
    size_t i;
    int rc = TD_OK;

    if (!cJSON_IsObject(entry))
        return td_fail(err, TD_EINVAL, "accepted: an entry is no object");
    for (i = 0; i < sizeof TEXTS / sizeof TEXTS[0] && !rc; i++)
        rc = check_text(entry, TEXTS[i], err);
    if (!rc)
        rc = td_accept_parse_date(td_json_get_str(entry, "since", ""), &days, err);
    if (!rc)
        rc = td_accept_parse_date(td_json_get_str(entry, "until", ""), &days, err);
    if (!rc && days > today + TD_ACCEPT_MAX_DAYS)
        rc = td_fail(err, TD_EINVAL,
                     "accepted: \"until\" of an entry is %s; give a day up to %d days ahead",
                     td_json_get_str(entry, "until", ""), TD_ACCEPT_MAX_DAYS);
    if (!rc && (!cJSON_IsObject(lanes) || !lanes->child))
        rc = td_fail(err, TD_EINVAL, "accepted: an entry names no lanes");
    if (!rc)
        cJSON_ArrayForEach(lane, lanes)
            if (!rc)
                rc = check_lane(lane, err);
    return rc;
}

int td_accept_check(const cJSON *file, int64_t today, struct td_error *err)
{
    const cJSON *list = td_json_get(file, "accepted"), *entry;
    int rc = TD_OK;

    if (strcmp(td_json_get_str(file, "schema", ""), TD_ACCEPT_SCHEMA) != 0)
        return td_fail(err, TD_EINVAL, "accepted: \"schema\" is not \"%s\"", TD_ACCEPT_SCHEMA);
    if (!cJSON_IsArray(list))
        return td_fail(err, TD_EINVAL, "accepted: \"accepted\" must be a list");
    if (cJSON_GetArraySize(list) > ENTRIES_MAX)
        return td_fail(err, TD_EINVAL, "accepted: more than %d entries; remove the expired ones",
                       ENTRIES_MAX);
    cJSON_ArrayForEach(entry, list)
        if (!rc)
            rc = check_entry(entry, today, err);
    return rc;
}

int td_accept_load(const char *path, cJSON **out, struct td_error *err)
{
    *out = NULL;
    if (td_fs_exists(path)) {
        *out = td_json_load_regular(path, FILE_MAX, err);
    } else if ((*out = cJSON_CreateObject())) {
        cJSON_AddStringToObject(*out, "schema", TD_ACCEPT_SCHEMA);
        cJSON_AddArrayToObject(*out, "accepted");
    }
    if (*out && !td_accept_check(*out, td_accept_today(), err))
        return TD_OK;
    if (*out)
        td_fail_at(err, "%s", path);
    cJSON_Delete(*out);
    *out = NULL;
    td_fail(err, TD_ENOMEM, "out of memory");
    return err->code = TD_EINVAL; /* whatever is wrong with it, the user has to mend it */
}

static int save(const char *path, const cJSON *file, struct td_error *err)
{
    struct td_buf text = TD_BUF_INIT(FILE_MAX);
    struct td_jw w;
    int rc;

    td_jw_init(&w, &text, true);
    td_jw_value(&w, NULL, file);
    td_buf_addc(&text, '\n');
    rc = text.failed ? td_fail(err, TD_ELIMIT, "%s: would pass %zu bytes; remove expired entries",
                               path, FILE_MAX)
                     : td_outfile_write(path, text.data, text.len, err);
    td_buf_release(&text);
    return rc;
}

/* False: it is not ours after LOCK_MS, or a signal came. */
static bool wait_for_lock(int fd)
{
    int ms = 0;

    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (ms >= LOCK_MS || td_gate_signal)
            return false;
        usleep(LOCK_STEP_MS * 1000);
        ms += LOCK_STEP_MS;
    }
    return true;
}

/* Keep other gates from the file while this one adds to it: its folder is locked, for the file itself
 * is replaced. A script may hold that lock around gate ("flock . gate ..."), so it is not waited for
 * without end. Returns a descriptor to close; < 0: the folder is not locked. */
static int lock_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[4096];
    int fd;

    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && !wait_for_lock(fd)) {
        td_log(TD_LOG_WARN, "gate", "%s: another program holds a lock on the folder of %s: gate adds to the "
                                    "file without one", folder, path);
        close(fd);
        fd = -1;
    }
    return fd;
}

int td_accept_extend(const char *path, const cJSON *entries, struct td_error *err)
{
    const int lock = lock_folder(path);
    const cJSON *entry;
    cJSON *file = NULL;
    int rc = td_gate_signal ? td_fail(err, TD_EINTR, "interrupted: nothing was added to %s", path)
                            : td_accept_load(path, &file, err);

    if (!rc) {
        cJSON_ArrayForEach(entry, entries)
            cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(file, "accepted"), cJSON_Duplicate(entry, true));
        rc = save(path, file, err);
    }
    cJSON_Delete(file);
    if (lock >= 0)
        close(lock);
    return rc;
}

/* ---- who ------------------------------------------------------------------------------------- */

/* The first line of a command's output. */
static bool first_line_of(const char *command, char *out, size_t n)
{
    FILE *f = popen(command, "r");

    out[0] = '\0';
    if (!f)
        return false;
    if (!fgets(out, (int)n, f))
        out[0] = '\0';
    pclose(f);
    out[strcspn(out, "\n")] = '\0';
    return *out;
}

const char *td_accept_who(char *out, size_t n)
{
    static const char *const CI[] = {"GITHUB_ACTOR", "GITLAB_USER_LOGIN"};
    char host[64] = "";
    struct passwd *user;
    size_t i;

    for (i = 0; i < sizeof CI / sizeof CI[0]; i++) {
        const char *name = getenv(CI[i]);

        if (name && *name) {
            snprintf(out, n, "%s", name);
            return out;
        }
    }
    if (first_line_of("git config user.email 2>/dev/null", out, n))
        return out;
    user = getpwuid(geteuid());
    gethostname(host, sizeof host - 1);
    snprintf(out, n, "%s on %s", user ? user->pw_name : "somebody", host);
    return out;
}
