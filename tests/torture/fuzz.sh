#!/usr/bin/env bash
# fuzz.sh - every parser under libFuzzer, MINUTES (20) each. SPDX-License-Identifier: Apache-2.0
exec make -s -C "$(dirname "$0")/../.." fuzz
