#!/usr/bin/env bash
# malicious_fixtures.sh - fixtures by somebody who means harm, at their full size, given to every
# program with 1 GiB of memory. TORTURE_MIB: what a fixture unpacks to (255).
# SPDX-License-Identifier: Apache-2.0
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
export BIN=${BIN:-$ROOT/bin} LC_ALL=C.UTF-8 NO_COLOR=1
PY=
for p in /usr/bin/python3 python3; do "$p" -c 'import zstandard, xxhash' 2>/dev/null && { PY=$p; break; }; done
[ -n "$PY" ] || { echo 'zstandard and xxhash for Python are missing; make deps installs them'; exit 1; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
golden=$ROOT/fixtures/golden/v1-synthetic
"$PY" "$ROOT/tests/malicious-fixtures/make.py" "$golden" "$work/all" "${TORTURE_MIB:-255}" || exit 1
"$PY" "$ROOT/tests/malicious-fixtures/run.py" "$work/all" "$golden" 1024
