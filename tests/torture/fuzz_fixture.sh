#!/usr/bin/env bash
# fuzz_fixture.sh - real fixtures whose fields are changed by what they mean, given to every program: CASES (300) from SEED (the
# time), then each number of four fixtures as a huge one, or each EVERYth (20) of these cases. SPDX-License-Identifier: Apache-2.0
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
export BIN=${BIN:-$ROOT/bin} LC_ALL=C.UTF-8 NO_COLOR=1
PY=
for p in /usr/bin/python3 python3; do "$p" -c 'import zstandard, xxhash' 2>/dev/null && { PY=$p; break; }; done
[ -n "$PY" ] || { echo 'zstandard and xxhash for Python are missing; make deps installs them'; exit 1; }
SCALE=${SCALE:-1} SEED=${SEED:-$(date +%s)}
EVERY=${EVERY:-$((SCALE < 20 ? 20 / SCALE : 1))}
bad=0
counts=

try() {
    local last
    last=$("$PY" "$ROOT/tests/torture/fuzz_fixture.py" "$@" | tee /dev/stderr | tail -n 1; exit "${PIPESTATUS[0]}") || bad=1
    counts+="${counts:+, }$* - ${last#fuzz_fixture: }"
}

try "${CASES:-$((300 * SCALE))}" "$SEED"
try numbers "$EVERY" $((SEED % EVERY))
echo "fuzz_fixture: $counts"
exit $bad
