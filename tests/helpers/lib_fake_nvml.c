/* lib_fake_nvml.c - a fake libnvidia-ml.so.1 with one GPU, at the PCI address of the fake driver's
 * GPU.
 * SPDX-License-Identifier: Apache-2.0
 *
 * TD_FAKE_NVML="1980 2619 41 300000 0": MHz of the multiprocessors, MHz of the memory, degrees
 * Celsius, milliwatts, throttle reasons. A value of -1 gives NVML_ERROR_NOT_SUPPORTED (3), as for a
 * sensor that a GPU does not have. Without the variable nvmlInit fails: no driver (9). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits);

static long given[5];

int nvmlInit_v2(void)
{
    const char *values = getenv("TD_FAKE_NVML");

    return values && sscanf(values, "%ld %ld %ld %ld %ld", &given[0], &given[1], &given[2], &given[3], &given[4]) == 5 ? 0 : 9;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int result)
{
    return result == 9 ? "Driver Not Loaded" : result == 6 ? "Not Found" : "Not Supported";
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
    *device = given;
    return strcmp(bus_id, "00000001:1b:00.0") ? 6 : 0;
}

static int read_value(const void *device, int which, unsigned *value)
{
    if (device != given)
        return 2;
    *value = (unsigned)given[which];
    return given[which] < 0 ? 3 : 0;
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
    return type == 1 || type == 2 ? read_value(device, type - 1, mhz) : 2;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    return sensor ? 2 : read_value(device, 2, celsius);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt)
{
    return read_value(device, 3, milliwatt);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits)
{
    unsigned low = 0;
    int rc = read_value(device, 4, &low);

    *bits = low;
    return rc;
}
