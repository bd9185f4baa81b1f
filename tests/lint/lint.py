#!/usr/bin/env python3
"""lint.py [WORD] - cppcheck, gcc -fanalyzer and clang-tidy over every C file of the product (or those whose path holds WORD).
lint.py --part I/N - over each Nth file, from the Ith (0) on.

`make lint` calls this. A finding is mended, or it has a row in accepted.txt beside this script with the reason why it is none;
a row is for all findings of one check in one file. A finding without a row fails, and so does a row of a file that was read
without a finding. Exit 0, 1, or 2 when a tool is missing.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDERS = 'common format wire metrics model kernels recorder replayer differ report gate fixture driver demo/server'.split()
NOT_THE_PRODUCT = 'bench tests'.split()
FLAGS = ['-I.', '-D_GNU_SOURCE', '-DTD_VERSION="lint"', '-DTD_FEATURES="lint"']
AHEAD = 'tests/lint/analyser.h'
# The checks of clang-tidy that look for faults; those of them that are of no use here, each with its reason.
CHECKS = 'bugprone-* clang-analyzer-* cert-* concurrency-* misc-redundant-expression misc-misplaced-const'
LEFT_OUT = '''
    bugprone-assignment-in-if-condition                   if ((rc = f())) is how this tree hands an error up
    bugprone-branch-clone                                 style: a chain of else ifs may give the same answer twice
    bugprone-easily-swappable-parameters                  style
    bugprone-implicit-widening-of-multiplication-result   sizes are bounded where they are read; UBSan looks in make check
    bugprone-macro-parentheses                            style: lists of macros hand on types and names
    bugprone-misplaced-widening-cast                      (long long) of an int64_t, for printf: both have 64 bits
    bugprone-narrowing-conversions                        style: numbers of JSON are doubles, counts become doubles
    bugprone-not-null-terminated-result                   bytes with a length are no strings
    bugprone-reserved-identifier                          names of the linker and the C library: __start_, _GNU_SOURCE
    bugprone-sizeof-expression                            sizeof *list of a list of pointers is meant
    bugprone-suspicious-string-compare                    style: if (strcmp(a, b))
    cert-dcl16-c                                          style: l or L behind a number
    cert-dcl37-c                                          as bugprone-reserved-identifier
    cert-dcl51-cpp                                        as bugprone-reserved-identifier
    cert-err33-c                                          wants the result of every printf
    cert-err34-c                                          wants strtol for sscanf of text that may be anything
    clang-analyzer-deadcode.DeadStores                    style
    clang-analyzer-security.insecureAPI.*                 wants functions that glibc does not have: memcpy_s
    clang-analyzer-valist.Uninitialized                   clang 14 loses sight of a va_list that is handed on
    concurrency-mt-unsafe                                 getenv and strerror; glibc's are safe as they are used here
'''
TIDY = ','.join(['-*', *CHECKS.split(), *('-' + line.split()[0] for line in LEFT_OUT.strip().splitlines())])
TOOLS = {
    'cppcheck': ['cppcheck', '--quiet', '--std=c11', '--inline-suppr', '--enable=warning,portability', '--suppress=missingIncludeSystem',
                 '--template={file}:{line}:0: warning: {message} [{id}]', '--include=' + AHEAD, '-I.', '-D_GNU_SOURCE'],
    'gcc': ['gcc', '-std=c17', '-O1', '-fanalyzer', '-c', '-o', '/dev/null', *FLAGS],
    'clang-tidy': ['clang-tidy', '-quiet', '-checks=' + TIDY],
}
FINDING = re.compile(r'^(?:%s/)?(?P<file>[^ :]+\.[ch]):(?P<line>\d+):\d+: warning: (?P<text>.*) \[(?P<check>[-\w.,=]+)\]$' % re.escape(ROOT))


def command(tool, path):
    """The command line that reads `path`, a file of the tree."""
    ahead = [] if path == 'common/error.c' or tool == 'cppcheck' else ['-include', AHEAD]
    if tool == 'clang-tidy':
        return [*TOOLS[tool], path, '--', '-std=c17', *FLAGS, *ahead]
    return [*TOOLS[tool], *ahead, path]


def read(job):
    """The findings of one tool in one file: a set of (tool, file, check, line, text)."""
    tool, path = job
    run = subprocess.run(command(tool, path), cwd=ROOT, capture_output=True, text=True)
    found = set()
    for line in (run.stdout + run.stderr).splitlines():
        m = FINDING.match(line)
        if m:
            check = m['check'].replace('-Wanalyzer-', '').split(',')[0]
            found.add((tool, os.path.normpath(m['file']), check, int(m['line']), m['text']))
    if run.returncode:
        found.add((tool, path, 'tool-failed', 0, 'exit %d: %s' % (run.returncode, ' '.join(run.stderr.split())[-300:])))
    return found


def accepted():
    """The rows of accepted.txt: {(tool, file, check): reason}."""
    rows = {}
    with open(os.path.join(HERE, 'accepted.txt'), encoding='utf-8') as f:
        for line in f:
            if line.strip() and not line.startswith('#'):
                tool, path, check, reason = line.split(None, 3)
                rows[tool, path, check] = reason.strip()
    return rows


def main():
    part = sys.argv[2].split('/') if sys.argv[1:2] == ['--part'] else ['0', '1']
    word = sys.argv[1] if len(sys.argv) == 2 else ''
    missing = [t for t in TOOLS if not shutil.which(t)]
    if missing:
        print('lint: missing: %s (Debian: apt-get install %s)' % (', '.join(missing), ' '.join(missing)), file=sys.stderr)
        return 2
    files = subprocess.run(['git', 'ls-files', *['%s/*.c' % f for f in FOLDERS]], cwd=ROOT, capture_output=True, text=True).stdout.split()
    every = subprocess.run(['git', 'ls-files', '*.c'], cwd=ROOT, capture_output=True, text=True).stdout.split()
    unread = {f.split('/')[0] for f in every} - {f.split('/')[0] for f in FOLDERS + NOT_THE_PRODUCT}
    if unread:
        print('lint: nothing is read of %s: it belongs into FOLDERS or NOT_THE_PRODUCT' % ', '.join(sorted(unread)), file=sys.stderr)
        return 2
    files = [f for f in files if word in f][int(part[0])::int(part[1])]
    jobs = [(t, f) for t in TOOLS for f in files]
    findings = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for i, found in enumerate(pool.map(read, jobs), 1):
            findings |= found
            if i % 100 == 0:
                print('lint: %d of %d files read' % (i, len(jobs)), file=sys.stderr)
    rows = accepted()
    count = collections.Counter(f[:3] for f in findings)
    bad = sorted(f for f in findings if f[:3] not in rows)
    stale = [r for r in rows if r not in count and (not word and part[1] == '1' or r[1] in files)]
    for tool, path, check, line, text in bad:
        print('%s:%d: %s: %s [%s]' % (path, line, tool, text, check))
    for row in stale:
        print('tests/lint/accepted.txt: no such finding any more: %s %s %s' % row)
    print('lint: %d files, %d findings, %d of them accepted with a reason, %d rows stale'
          % (len(files), len(findings), len(findings) - len(bad), len(stale)))
    return 1 if bad or stale or not files else 0


if __name__ == '__main__':
    sys.exit(main())
