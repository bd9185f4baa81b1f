/* nvml.c - clocks, temperature and power through NVML.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpu/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_SM = 1, CLOCK_MEM = 2, SENSOR_GPU = 0 }; /* nvmlClockType_t, nvmlTemperatureSensors_t */

struct td_nvml {
    void *library, *device;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int result);
    int (*by_bus_id)(const char *bus_id, void **device);
    int (*clock)(void *device, int type, unsigned *mhz);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*power)(void *device, unsigned *milliwatt);
    int (*reasons)(void *device, unsigned long long *bits);
};

static void *find_function(void *library, const char *name, void *fn)
{
    void *symbol = dlsym(library, name);

    memcpy(fn, &symbol, sizeof symbol); /* ISO C has no cast from object to function */
    return symbol;
}

static const char *find_functions(struct td_nvml *n)
{
    find_function(n->library, "nvmlShutdown", &n->shutdown);
    find_function(n->library, "nvmlErrorString", &n->error_string);
    find_function(n->library, "nvmlDeviceGetClockInfo", &n->clock);
    find_function(n->library, "nvmlDeviceGetTemperature", &n->temperature);
    find_function(n->library, "nvmlDeviceGetPowerUsage", &n->power);
    if (!find_function(n->library, "nvmlDeviceGetCurrentClocksEventReasons", &n->reasons))
        find_function(n->library, "nvmlDeviceGetCurrentClocksThrottleReasons", &n->reasons); /* its name before driver 535 */
    if (!find_function(n->library, "nvmlInit_v2", &n->init))
        return "nvmlInit_v2";
    return find_function(n->library, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_bus_id)
               ? NULL
               : "nvmlDeviceGetHandleByPciBusId_v2";
}

static int start_nvml(struct td_nvml *n, const char *bus_id, char *why, size_t size)
{
    const char *missing = find_functions(n);
    int rc;

    if (missing) {
        snprintf(why, size, "NVML has no %s", missing);
        return -1;
    }
    if ((rc = n->init())) {
        n->shutdown = NULL;
    } else {
        rc = n->by_bus_id(bus_id, &n->device);
    }
    if (rc)
        snprintf(why, size, "NVML does not know the GPU at %s: %s (%d)", bus_id,
                 n->error_string ? n->error_string(rc) : "error", rc);
    return rc;
}

struct td_nvml *td_nvml_open(const char *bus_id, char *why, size_t size)
{
    const char *named = getenv("TD_NVML_LIBRARY");
    struct td_nvml *n = calloc(1, sizeof *n);

    why[0] = '\0';
    if (!n)
        return NULL;
    n->library = dlopen(named && *named ? named : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        snprintf(why, size, "there is no NVML: %s", dlerror());
    if (n->library && !start_nvml(n, bus_id, why, size))
        return n;
    td_nvml_close(n);
    return NULL;
}

static int read_clock(const struct td_nvml *n, int type)
{
    unsigned mhz = 0;

    return n->clock && !n->clock(n->device, type, &mhz) && mhz <= INT_MAX ? (int)mhz : -1;
}

void td_nvml_read(struct td_nvml *n, struct td_gpu_condition *out)
{
    unsigned celsius = 0, milliwatt = 0;
    unsigned long long bits = 0;

    out->sm_mhz = read_clock(n, CLOCK_SM);
    out->mem_mhz = read_clock(n, CLOCK_MEM);
    out->temp_c = n->temperature && !n->temperature(n->device, SENSOR_GPU, &celsius) && celsius <= INT_MAX ? (int)celsius : -1;
    out->power_mw = n->power && !n->power(n->device, &milliwatt) && milliwatt <= INT_MAX ? (int)milliwatt : -1;
    out->reasons = n->reasons && !n->reasons(n->device, &bits) && bits <= INT64_MAX ? (int64_t)bits : -1;
}

void td_nvml_close(struct td_nvml *n)
{
    if (!n)
        return;
    if (n->library && n->shutdown)
        n->shutdown();
    if (n->library)
        dlclose(n->library);
    free(n);
}
