#!/usr/bin/env bash
# kill_repair.sh - kill fixture repair at each of its changes to the disk, and repair again.
# SPDX-License-Identifier: Apache-2.0
exec python3 "$(dirname "$0")/crash.py" repair
