#!/usr/bin/env bash
# run.sh - time the judge's references on this machine's CPU, beside the plain loop.
# SPDX-License-Identifier: Apache-2.0
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
make -s -C "$ROOT" build/bench/judge/reference
"$ROOT/build/bench/judge/reference" "$@"
