#!/usr/bin/env bash
# hostile.sh - whole transfers from a server that lies, drips and breaks, through the real record and
# replay: all rows of tests/hostile/modes.py, and an answer cut and reset at each of its bytes.
# SPDX-License-Identifier: Apache-2.0
exec python3 "$(dirname "$0")/../hostile/run.py" all
