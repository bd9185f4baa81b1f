#!/usr/bin/env bash
# fuzz.sh - every parser under libFuzzer, MINUTES (1) each, FUZZ_JOBS (2) at a time. SPDX-License-Identifier: Apache-2.0
exec make -s -C "$(dirname "$0")/../.." fuzz MINUTES="${MINUTES:-${SCALE:-1}}" FUZZ_JOBS="${FUZZ_JOBS:-2}"
