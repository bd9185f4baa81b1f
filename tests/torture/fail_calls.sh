#!/usr/bin/env bash
# fail_calls.sh - every call of the C library fails in turn, in every program (CALLS=40 of each function at most); LEAKS=1: under
# valgrind, RUNS=8 of each scenario.
# SPDX-License-Identifier: Apache-2.0
exec python3 "$(dirname "$0")/fail_calls.py"
