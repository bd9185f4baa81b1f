#!/usr/bin/env bash
# lint.sh - cppcheck, gcc -fanalyzer and clang-tidy over the product: each 8th file, other ones each day (`date +%j`); with SCALE=N
# each (8 / N)th. LINT_PART=I/N chooses them. `make lint` reads all. SPDX-License-Identifier: Apache-2.0
SCALE=${SCALE:-1}
n=$((SCALE < 8 ? 8 / SCALE : 1))
part=${LINT_PART:-$((10#$(date +%j) % n))/$n}
echo "part $part"
exec python3 "$(dirname "$0")/../lint/lint.py" --part "$part"
