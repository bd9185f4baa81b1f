#!/usr/bin/env bash
# lint.sh - cppcheck, gcc -fanalyzer and clang-tidy over the product. SPDX-License-Identifier: Apache-2.0
exec python3 "$(dirname "$0")/../lint/lint.py"
