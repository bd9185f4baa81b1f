/* host_facts.c - facts about the machine that records or replays.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/host_facts.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/json.h"

/* Find the value of the first line "key : value" of a text; "" without one. */
static void find_value(const char *text, const char *key, char *out, size_t n)
{
    const char *at = strstr(text, key);
    size_t len;

    out[0] = '\0';
    if (!at || !(at = strchr(at, ':')))
        return;
    at += 1 + strspn(at + 1, " \t");
    len = strcspn(at, "\n");
    snprintf(out, n, "%.*s", (int)(len < n ? len : n - 1), at);
}

static void read_text(const char *path, struct td_buf *out)
{
    td_buf_clear(out);
    td_fs_read(path, out->max, out, NULL);
}

/* List the instruction sets that decide which kernels run. */
static void list_isa(const char *flags, char *out, size_t n)
{
    static const char *const known[] = {"avx2",     "fma",         "f16c",        "avx512f",
                                        "avx512bw", "avx512_vnni", "avx512_bf16", "amx_tile",
                                        "amx_int8", "amx_bf16",    "asimd",       "sve"};
    size_t i, used = 0;

    out[0] = '\0';
    for (i = 0; i < sizeof known / sizeof *known; i++) {
        size_t len = strlen(known[i]);
        const char *at = flags;

        while ((at = strstr(at, known[i])) &&
               ((at > flags && at[-1] != ' ') || (at[len] && at[len] != ' ')))
            at += len;
        if (at && used < n)
            used += (size_t)snprintf(out + used, n - used, "%s%s", used ? " " : "", known[i]);
    }
}

/* The model of the GPU, and how many there are; "none" without one. */
static void describe_gpu(struct td_buf *text, char *out, size_t n)
{
    DIR *d = opendir("/proc/driver/nvidia/gpus");
    struct dirent *e;
    char path[400];
    int count = 0;

    snprintf(out, n, "none");
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", e->d_name);
        read_text(path, text);
        find_value(td_buf_str(text), "Model", out, n);
        count++;
    }
    if (d)
        closedir(d);
    if (count > 1)
        snprintf(out + strlen(out), n - strlen(out), " x%d", count);
    if (!count && td_fs_exists("/dev/kfd"))
        snprintf(out, n, "AMD (kfd)");
}

/* A text that is equal on one machine, and tells nobody which that is. */
static void write_machine(struct td_writer *w, struct td_buf *text)
{
    char hex[TD_HASH_HEX], name[256] = "";
    struct td_hash h;

    read_text("/etc/machine-id", text);
    gethostname(name, sizeof name - 1);
    td_buf_adds(text, name); /* containers of one image may share an id */
    h = td_hash_bytes(td_buf_str(text), text->len);
    td_hash_hex(h, hex);
    td_writer_fact_str(w, "host", "machine", hex);
}

static void write_line(struct td_writer *w, const char *key, const char *path, struct td_buf *text)
{
    char line[80];

    read_text(path, text);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(td_buf_str(text), "\n"), td_buf_str(text));
    if (*line)
        td_writer_fact_str(w, "host", key, line);
}

/* What decides how fast the same code runs on the same processors. */
static void write_clocks(struct td_writer *w, struct td_buf *text)
{
    char value[120];

    write_line(w, "cpu_governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text);
    write_line(w, "cpu_max_khz", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", text);
    read_text("/proc/driver/nvidia/version", text);
    find_value(td_buf_str(text), "NVRM version", value, sizeof value);
    if (*value)
        td_writer_fact_str(w, "host", "gpu_driver", value);
}

void td_host_facts_write(struct td_writer *w)
{
    struct td_buf text = TD_BUF_INIT(4 << 20);
    char value[256], isa[256], flags[8192];
    struct utsname u;
    cJSON *n;

    read_text("/proc/cpuinfo", &text);
    find_value(td_buf_str(&text), "model name", value, sizeof value);
    td_writer_fact_str(w, "host", "cpu", *value ? value : "unknown");
    find_value(td_buf_str(&text), strstr(td_buf_str(&text), "flags") ? "flags" : "Features", flags,
               sizeof flags);
    list_isa(flags, isa, sizeof isa);
    td_writer_fact_str(w, "host", "isa", isa);
    n = cJSON_CreateNumber((double)sysconf(_SC_NPROCESSORS_ONLN));
    td_writer_fact(w, "host", "cores", n);
    cJSON_Delete(n);
    if (!uname(&u)) {
        snprintf(value, sizeof value, "%.60s %.120s", u.sysname, u.release);
        td_writer_fact_str(w, "host", "kernel", value);
    }
    describe_gpu(&text, value, sizeof value);
    td_writer_fact_str(w, "host", "gpu", value);
    write_machine(w, &text);
    write_clocks(w, &text);
    td_buf_release(&text);
}

void td_host_facts_probes(struct td_writer *w, const double *ms, int n)
{
    cJSON *list = cJSON_CreateDoubleArray(ms, n);

    td_writer_fact(w, "host", "cpu_probe_ms", list);
    cJSON_Delete(list);
}

void td_host_facts_others(struct td_writer *w, const struct td_cpu_others *others, int n)
{
    cJSON *list = cJSON_CreateArray(), *one;
    int i;

    for (i = 0; i < n; i++) {
        one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        if (*others[i].unknown) {
            cJSON_AddStringToObject(one, "unknown", others[i].unknown);
            continue;
        }
        cJSON_AddNumberToObject(one, "cores", round(others[i].cores * 1000) / 1000);
        cJSON_AddNumberToObject(one, "of", others[i].of);
        if (others[i].waited >= 0)
            cJSON_AddNumberToObject(one, "waited", round(others[i].waited * 1000) / 1000);
    }
    td_writer_fact(w, "host", "others", list);
    cJSON_Delete(list);
}

void td_host_facts_read_others(const cJSON *manifest, int i, struct td_cpu_others *out)
{
    const cJSON *one = cJSON_GetArrayItem(td_json_get(td_json_get(manifest, "host"), "others"), i);

    *out = (struct td_cpu_others){td_json_get_num(one, "cores", -1), (int)td_json_get_i64(one, "of", 0), td_json_get_num(one, "waited", -1), ""};
    if (!(out->cores >= 0) || out->of < 1)
        snprintf(out->unknown, sizeof out->unknown, "%.150s", td_json_get_str(one, "unknown", "it was not measured"));
}
