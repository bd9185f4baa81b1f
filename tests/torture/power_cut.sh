#!/usr/bin/env bash
# power_cut.sh - cut the power at each change of record, repair and pack.
# SPDX-License-Identifier: Apache-2.0
exec python3 "$(dirname "$0")/power.py"
