#!/usr/bin/env bash
# kill_write.sh - kill pack, unpack, merge, extract and replay at each of their changes to the disk.
# SPDX-License-Identifier: Apache-2.0
exec python3 "$(dirname "$0")/crash.py" write
