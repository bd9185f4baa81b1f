#!/usr/bin/env bash
# fail_in_server.sh - calls of the C library fail inside a server with the tap, while it is recorded: of each function that each of
# 12 servers calls, CASES (1) cases, other ones each time (SEED repeats them). CALLS=N: N places of each function, evenly spread,
# alone and with all that follow (an hour for CALLS=2). SPDX-License-Identifier: Apache-2.0
CASES=${CASES:-${SCALE:-1}} exec python3 "$(dirname "$0")/fail_in_server.py"
