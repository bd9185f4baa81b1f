# bench.py ROUNDS BASE SAME CHANGED NAME=PROGRAM... - programs that compare two fixtures, in turn: wall time, CPU, peak memory.
# SPDX-License-Identifier: Apache-2.0
#
# A round is all programs, one after the other, on BASE with SAME and on BASE with CHANGED. PROGRAM is a differ, or peer.py.
# Memory is what Linux counts as the process's peak (ru_maxrss). Printed are medians over rounds with the least and the most,
# and ratios to the first program within a round.
import os
import statistics
import sys
import time


def run(program, base, new):
    """Wall seconds, CPU seconds, MB at the peak."""
    command = [sys.executable, program] if program.endswith(".py") else [program]
    before = time.monotonic()
    pid = os.fork()
    if not pid:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.execvp(command[0], [*command, base, new])
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1, 3):
        sys.exit(f"{program}: exit {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - before, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def words(v, form):
    return f"{statistics.median(v):{form}} [{min(v):{form}}, {max(v):{form}}]"


def main():
    rounds, base = int(sys.argv[1]), sys.argv[2]
    programs = [p.split("=", 1) for p in sys.argv[5:]]
    for name, new in (("the same answers", sys.argv[3]), ("1 % of the answers fork", sys.argv[4])):
        got = {p: [] for p, _ in programs}
        print(f"{name}; load {os.getloadavg()[0]:.1f}", flush=True)
        for _ in range(rounds):
            for p, program in programs:
                got[p].append(run(program, base, new))
        first = got[programs[0][0]]
        for p, _ in programs:
            wall, cpu, mb = zip(*got[p])
            print(f"  {p:8} {words(wall, '.2f')} s wall  {words(cpu, '.2f')} s CPU  {words(mb, '.0f')} MB", end="")
            if got[p] is not first:
                print("  times the first: wall", words([a[0] / b[0] for a, b in zip(got[p], first)], ".1f"),
                      "CPU", words([a[1] / b[1] for a, b in zip(got[p], first)], ".1f"), end="")
            print(flush=True)
        print(f"  load {os.getloadavg()[0]:.1f}")


main()
