#!/usr/bin/env bash
# fail_calls.sh - every call of the C library fails in turn, in every program: CALLS (6) of each function at most, evenly spread;
# LEAKS=1: under valgrind, RUNS=8 of each scenario. SPDX-License-Identifier: Apache-2.0
CALLS=${CALLS:-$((6 * ${SCALE:-1}))} exec python3 "$(dirname "$0")/fail_calls.py"
