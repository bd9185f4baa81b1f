#!/usr/bin/env bash
# many_ops.sh - a fixture of a million ops (SCALE: N times as many): replay plans, judges and ends in bounded
# memory, and differ gives a verdict.
# SPDX-License-Identifier: Apache-2.0
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
n=$((1000000 * ${SCALE:-1}))
"$O/tests/helpers/make_many_ops" "$work/fx" $n || exit 1
python3 - "$work" $n <<'P'
import os, resource, subprocess, sys
work, n = sys.argv[1], int(sys.argv[2])
bin_ = os.environ['BIN']
most = 0
def run(what, limit_mib, *command):
    """Run a program; its largest memory must be below the limit. Children count one after the other, the largest so far."""
    global most
    done = subprocess.run([bin_ + '/' + command[0], *command[1:]], capture_output=True, text=True)
    most = max(most, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
    print('%s: exit %d, at most %d MiB so far (limit %d)' % (what, done.returncode, most, limit_mib))
    print('\n'.join(l for l in (done.stdout + done.stderr).splitlines() if 'judged' in l or 'plan' in l or 'verdict' in l or 'error' in l))
    if done.returncode or most > limit_mib:
        sys.exit('many_ops: FAILED: ' + what)
scale = n / 1e6
run('replay of a sample', 250 + 100 * scale, 'replay', work + '/fx', '--provider', 'cpu', '--cache', 'off', '-o', work + '/sample', '--max-ops', '3000')
run('replay in time', 250 + 100 * scale, 'replay', work + '/fx', '--provider', 'cpu', '--cache', 'off', '-o', work + '/timed', '--max-ops', '0', '--time', '300s')
run('differ', 300 + 1600 * scale, 'differ', work + '/fx', work + '/sample')
print('many_ops: 3 runs, none failed')
P
