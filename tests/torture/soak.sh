#!/usr/bin/env bash
# soak.sh - record 512 streams at once for half an hour, with 1 in 1,000 connections dropped: memory
# stays flat, the ledger balances to the byte, no descriptor is lost. The last line counts the cases.
# usage: BIN=.. [SOAK_MINUTES=30] [SOAK_STREAMS=512] [SOAK_TABLE=FILE] tests/torture/soak.sh
# SPDX-License-Identifier: Apache-2.0
SOAK_MINUTES=${SOAK_MINUTES:-$((30 * ${SCALE:-1}))} exec python3 "$(dirname "$0")/soak.py"
