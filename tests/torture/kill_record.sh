#!/usr/bin/env bash
# kill_record.sh - kill record at random moments, KILLS (200) times; 1,000 are SCALE=5.
# SPDX-License-Identifier: Apache-2.0
exec python3 "$(dirname "$0")/kill_record.py" "${KILLS:-$((200 * ${SCALE:-1}))}"
