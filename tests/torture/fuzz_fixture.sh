#!/usr/bin/env bash
# fuzz_fixture.sh - real fixtures whose fields are changed by what they mean, given to every program:
# CASES (3,000) from SEED (the time), then each number of four fixtures as a huge one. SPDX-License-Identifier: Apache-2.0
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
export BIN=${BIN:-$ROOT/bin} LC_ALL=C.UTF-8 NO_COLOR=1
PY=
for p in /usr/bin/python3 python3; do "$p" -c 'import zstandard, xxhash' 2>/dev/null && { PY=$p; break; }; done
[ -n "$PY" ] || { echo 'zstandard and xxhash for Python are missing; make deps installs them'; exit 1; }
bad=0
"$PY" "$ROOT/tests/torture/fuzz_fixture.py" "${CASES:-3000}" "${SEED:-$(date +%s)}" || bad=1
"$PY" "$ROOT/tests/torture/fuzz_fixture.py" numbers || bad=1
exit $bad
