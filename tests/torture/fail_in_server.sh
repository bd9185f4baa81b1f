#!/usr/bin/env bash
# fail_in_server.sh - every call of the C library fails in turn inside a server with the tap, while it is recorded: CALLS (2) places
# of each function, evenly spread. SPDX-License-Identifier: Apache-2.0
CALLS=${CALLS:-$((2 * ${SCALE:-1}))} exec python3 "$(dirname "$0")/fail_in_server.py"
