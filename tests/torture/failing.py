"""failing.py - what fail_calls.py and fail_in_server.py share: runs under tests/helpers/lib_fail_calls.c, and what a fixture holds.
Needs BIN, LIB and O as tests/run.sh sets them. SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import random
import struct
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get('BIN', ROOT + '/bin')
LIB = os.environ.get('LIB', ROOT + '/lib')
O = os.environ.get('O', ROOT + '/build')
FAIL = O + '/tests/helpers/lib_fail_calls.so'
CALLS = int(os.environ.get('CALLS', '40'))
SEED = int(os.environ.get('SEED', str(int(time.time()))))


def chosen(n, calls=CALLS):
    """At most `calls` numbers from 1 to n, evenly spread."""
    if n <= calls:
        return list(range(1, n + 1))
    return sorted({1 + round(i * (n - 1) / (calls - 1)) for i in range(calls)}) if calls > 1 else [1]


def sample(n, cases, seed):
    """`cases` of the failures of a function that is called n times: [(which call, '' or '+' for all that follow)], the same for
    the same seed: the first call, the last, or any between."""
    rng, got = random.Random(seed), set()
    while len(got) < min(cases, 2 * n - 1):
        at = rng.choice((1, n, rng.randint(1, n)))
        got.add((at, rng.choice(('', '+')) if at < n else '')) # nothing follows the last one
    return sorted(got)


def read_counts(path):
    """({function: how often it was called}, how many calls failed) of a file TD_FAIL_COUNTS."""
    rows = {}
    if os.path.exists(path):
        with open(path, 'rb') as f:
            rows = {name.rstrip(b'\0').decode(): n for name, n in struct.iter_unpack('24sq', f.read())}
    failed = rows.pop('failed', 0)
    return {name: n for name, n in rows.items() if n}, failed


def fixture_tool(*words):
    done = subprocess.run([BIN + '/fixture', *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout


def lines_of(path, name):
    """The JSON lines of a stream of a fixture."""
    file = '%s/%s.jsonl.zst' % (path, name)
    lines = subprocess.run(['zstd', '-dcq', file], capture_output=True).stdout.splitlines() if os.path.exists(file) else []
    return [json.loads(line) for line in lines]
