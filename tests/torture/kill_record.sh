#!/usr/bin/env bash
# kill_record.sh - kill record at random moments, KILLS (1,000) times.
# SPDX-License-Identifier: Apache-2.0
exec python3 "$(dirname "$0")/kill_record.py" "${KILLS:-1000}"
