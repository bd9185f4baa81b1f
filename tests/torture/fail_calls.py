#!/usr/bin/env python3
"""fail_calls.py [SCENARIO ...] - let every call of the C library fail in turn, in every program, and look what comes of it.

A scenario is a command. It runs once to count its calls (tests/helpers/lib_fail_calls.c), then once for each call of each function
that fails, alone ("once") and with all that follow ("on"). CALLS (40) bounds the calls tried of one function: the first, the last,
and others evenly between. Of builds on fake GPUs CALLS / 3 failures of each function are tried, as SEED chooses (the time, if none is
given; it is printed), and in a child only calls of its own code: a fake driver aborts when its own fail.
TD_FAIL_CALL="malloc:3+ ..." instead: these alone; malloc:-3 is the third but last. What must hold, whatever fails:

  * the program ends by itself, with an exit code that it documents, within two minutes;
  * exit 0 means that nothing is missing: its results are those of the run where nothing failed;
  * another exit names a cause, and no verdict is pass or regressed: a lack of memory is no finding (docs/verdicts.md);
  * a fixture that was read is unchanged; one that was written verifies, or does after `fixture repair`;
  * no temporary file stays.

LEAKS=1 runs the programs under valgrind instead: at most RUNS (8) runs a scenario, evenly spread over all functions and calls.
Then only this must hold: it ends, and memcheck finds no lost memory and no invalid access in the program whose calls fail.

Prints a row a scenario, and every failure with the line that repeats it. Exit 1 if there was one.
Needs BIN, LIB and O as tests/run.sh sets them. SPDX-License-Identifier: Apache-2.0
"""
import errno
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from failing import BIN, CALLS, FAIL, LIB, O, ROOT, SEED, chosen, fixture_tool, lines_of, read_counts, sample

LEAKS = os.environ.get('LEAKS', '') not in ('', '0')
RUNS = int(os.environ.get('RUNS', '8'))
FEWER = ['--max-ops', '4'] if LEAKS else [] # of a replay: valgrind is slow
VALGRIND = ['valgrind', '-q', '--trace-children=yes', '--leak-check=full', '--show-leak-kinds=definite', '--undef-value-errors=no',
            '--soname-synonyms=somalloc=nouserintercepts'] # else malloc does not come by lib_fail_calls
ONLY = os.environ.get('TD_FAIL_CALL', '').split()


def from_the_start(fail, counts):
    """A call of TD_FAIL_CALL as lib_fail_calls takes it: "malloc:-3+" of 100 calls is "malloc:98+"."""
    name, at, more = re.fullmatch(r'(\w+):(-?\d+)(\+?)', fail).groups()
    return '%s:%d%s' % (name, dict(counts)[name] + 1 + int(at) if int(at) < 0 else int(at), more)


# Builds on fake GPUs.
HELPERS, DATA = O + '/tests/helpers/', ROOT + '/tests/unit/data/'
CUDA = {'TD_CUDA_LIBRARY': HELPERS + 'lib_fake_cuda.so', 'TD_FAKE_CUDA_PLUGIN': HELPERS + 'lib_fake_gptq.so', 'TD_FAKE_GPTQ': 'exact'}
MARLIN = {**CUDA, 'TD_FAKE_CUDA_PLUGIN': HELPERS + 'lib_fake_marlin.so:' + HELPERS + 'lib_fake_simt.so', 'TD_FAKE_MARLIN': 'right'}
TIMED = {**CUDA, 'TD_NVML_LIBRARY': HELPERS + 'lib_fake_nvml.so', 'TD_FAKE_NVML': '1980 2619 41 300000 0'}
PTX = {**CUDA, 'HOME': '{w}', 'TD_FAKE_CUDA_COMPILED': '{w}/compiled', 'CUDA_CACHE_DISABLE': '0', 'CUDA_CACHE_PATH': '', 'XDG_CACHE_HOME': ''}
HIP = {'TD_HIP_LIBRARY': HELPERS + 'lib_fake_hip.so', 'TD_HIPBLAS_LIBRARY': HELPERS + 'lib_fake_hipblas.so', 'TD_FAKE_GPTQ': 'exact',
       'TD_FAKE_CUDA_PLUGIN': HELPERS + 'lib_fake_gptq.so:' + HELPERS + 'lib_fake_simt.so', 'TD_FAKE_SIMT': '64'}
# Where a server is judged: what the network says when this machine lacks something. A reset would be the server's.
OURS = {'connect': errno.EADDRNOTAVAIL, 'recv': errno.ENOMEM, 'send': errno.ENOBUFS}
# What stays when these fail was to be removed by them, or without memory; the next gate removes what an earlier one left.
REMOVERS = {'lstat', 'unlink', 'opendir', 'readdir', 'malloc'}


class Scenario:
    """One command: `words`, where {f} is the fixture, {w} a fresh folder and {url} the server. `program` is the one
    whose calls fail. `writes`: the fixture it makes; `prepare`: a function of the fresh folder, called before each run.
    `judges`: it ends with a verdict. `ran`: exit 0 says that it ran, and its results say of which ops (replay).
    `reads`: makes the fixture {f} in the folder that it is given, once; the default was recorded of the demo server.
    `env`: variables, with the same words in braces. `few`: a run takes seconds, so a sample of the calls is tried.
    `file`: what it makes and is no fixture. `beside`: a function that is called again and again while it runs."""

    def __init__(self, name, program, words, writes=None, prepare=None, judges=False, ran=False, reads=None, env=None, few=False, file=None, beside=None):
        self.name, self.program, self.words = name, program, words
        self.writes, self.prepare, self.judges, self.ran = writes, prepare, judges, ran
        self.reads, self.env, self.few, self.file, self.beside = reads, env or {}, few, file, beside

    def fixture(self):
        """The path of the fixture that it reads."""
        if not self.reads:
            return fixture
        path = '%s/%s' % (base, self.reads.__name__)
        if not os.path.exists(path):
            self.reads(path)
        return path


def damaged_copy(work):
    """A fixture without its end, for `repair`."""
    shutil.copytree(fixture, work + '/damaged')
    for name in os.listdir(work + '/damaged'):
        if name.startswith('exchanges'):
            path = '%s/damaged/%s' % (work, name)
            os.truncate(path, os.path.getsize(path) - 7)


def packed_copy(work):
    """A pack, for `unpack`."""
    fixture_tool('pack', fixture, '-o', work + '/in.tdz')


def two_shards(work):
    """The parts of one replay, for `merge`."""
    for i in '12':
        subprocess.run([BIN + '/replay', fixture, '--build', LIB + '/libtdkernels.so', '--shard', i + '/2', '-o', work + '/s' + i, '-q'],
                       stdin=subprocess.DEVNULL, capture_output=True)


def capture(work):
    """Packets of three connections at once, each segment before the one that it follows, or twice: all exchanges are whole."""
    sys.path.insert(0, ROOT + '/tests/fakes')
    import packets
    rows = []
    for port in range(40001, 40004):
        c = packets.Connection(port=port)
        rows.append(c.open() + sum((c.request('say %d' % i, size=60)[::-1] + c.answer('a%d' % i, size=50, chunked=i & 1)[::-1] for i in range(3)), [])
                    + c.close())
    together = [p for some in zip(*rows) for p in some]
    packets.write(work + '/x.pcap', together + together[-6:])


def planned(work):
    """A replay whose plan holds one op of each kind, for `gate --plan`."""
    subprocess.run([BIN + '/gate', fixture, '--build', LIB + '/libtdkernels.so', '--lanes', 'ops', '--time', '1ms', '--keep', work + '/kept', '-q'],
                   stdin=subprocess.DEVNULL, capture_output=True)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def python_with_numpy():
    for python in ('/usr/bin/python3', sys.executable):
        if not subprocess.run([python, '-c', 'import numpy'], stderr=subprocess.DEVNULL).returncode:
            return python
    sys.exit('fail_calls: numpy for Python is missing; make deps installs it')


def ops_of_torch(path):
    """Ops of a vLLM on a GPU (e2e 070)."""
    made = subprocess.run([python_with_numpy(), ROOT + '/tests/e2e/070-torch-gpu/make_ops.py'], stdin=subprocess.DEVNULL, capture_output=True, check=True,
                          cwd=runtime) # it writes its tensors there
    subprocess.run([HELPERS + 'raw_ops', path], input=made.stdout, stdout=subprocess.DEVNULL, check=True, cwd=runtime)


def gptq_ops(path):
    subprocess.run([HELPERS + 'make_ops', path, 'steps=1'], stdout=subprocess.DEVNULL, check=True)


def marlin_ops(path):
    """Ops of vLLM's Marlin (e2e 052)."""
    subprocess.run([HELPERS + 'make_ops', path, 'steps=1', 'marlin=1'], stdout=subprocess.DEVNULL, check=True,
                   env=dict(os.environ, TD_MAKE_OPS_BUILD=DATA + 'marlin_like.fatbin', **MARLIN))


def ops_with_code(path):
    """A recording of kernels on a fake GPU, with their code (e2e 129)."""
    work = tempfile.mkdtemp(dir=base)
    for name, file in (('libcuda.so.1', 'lib_fake_cuda.so'), ('libcupti.so.13', 'lib_fake_cupti.so')):
        os.symlink(HELPERS + file, work + '/' + name)
    os.mkdir(work + '/vllm')
    library = work + '/vllm/_C_stable_libtorch.abi3.so'
    shutil.copy(HELPERS + 'lib_gptq_image.so', library)
    model, port = ROOT + '/demo/checkpoints/gptq4', str(free_port())
    subprocess.run([BIN + '/record', '--server', '127.0.0.1:' + port, '-o', path, '--suite', suite, '--repeat', '1', '--gemms', 'all', '--checkpoint', model,
                    '--run', '--', 'env', 'LD_LIBRARY_PATH=' + work, 'python3', ROOT + '/tests/fakes/fake_server.py', '--port', port,
                    '--gpu', HELPERS + 'lib_cuda_model.so', '--library', library, '--model', model],
                   stdin=subprocess.DEVNULL, capture_output=True, check=True, env=dict(os.environ, TD_TAP_DIR=work))


def ask():
    """One request on a connection of its own, for what listens."""
    body = b'{"model":"demo","prompt":"In the beginning","max_tokens":3,"temperature":0}'
    try:
        with socket.create_connection(url.split(':'), timeout=10) as s:
            s.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
            while s.recv(65536):
                pass
    except OSError:
        pass # the server is asked again
    time.sleep(0.05)


def on_a_gpu(name, child, words, reads, env):
    """`replay`, and `gate`, of a build on a fake GPU: the calls of `replay` fail, and those of its child. Both judge."""
    words = '{f} --build ' + words
    for program in ('replay', child):
        yield Scenario('%s-%s' % (name, program), program, 'replay -o {w}/out ' + words, writes='out', ran=True, reads=reads, env=env)
        yield Scenario('%s-gate-%s' % (name, program), program, 'gate --lanes ops ' + words, judges=True, reads=reads, env=env)


SCENARIOS = [
    Scenario('verify', 'fixture', 'fixture verify {f}'),
    Scenario('ls', 'fixture', 'fixture ls {f}'),
    Scenario('show', 'fixture', 'fixture show {f} op 0'),
    Scenario('ops', 'fixture', 'fixture ops {f}'),
    Scenario('stats', 'fixture', 'fixture stats {f} --metrics-as vllm --json --csv {w}/rows.csv'),
    Scenario('stats-result', 'fixture', 'fixture stats {f} --save-result {w}/result.json --save-detailed'),
    Scenario('pack', 'fixture', 'fixture pack {f} -o {w}/out.tdz', writes='out.tdz'),
    Scenario('unpack', 'fixture', 'fixture unpack {w}/in.tdz -o {w}/out', writes='out', prepare=packed_copy),
    Scenario('merge', 'fixture', 'fixture merge {w}/s1 {w}/s2 -o {w}/out', writes='out', prepare=two_shards),
    Scenario('redact', 'fixture', 'fixture redact {f} --no-text -o {w}/out', writes='out'),
    Scenario('steps', 'fixture', 'fixture steps {f}'),
    Scenario('extract', 'fixture', 'fixture extract {f} -o {w}/out --op 0 --no-requests', writes='out'),
    Scenario('export', 'fixture', 'fixture export {f} -o {w}/plain'),
    Scenario('repair', 'fixture', 'fixture repair {w}/damaged', writes='damaged', prepare=damaged_copy),
    Scenario('differ', 'differ', 'differ {f} {f} --json {w}/report.json', judges=True),
    Scenario('differ-terms', 'differ', 'differ {f} {f} --metrics-as vllm --goodput ttft:1s --json {w}/report.json', judges=True),
    Scenario('replay', 'replay', 'replay {f} --build {lib}/libtdkernels.so -o {w}/out', writes='out', ran=True),
    Scenario('replay-child', 'replay-child', 'replay {f} --build {lib}/libtdkernels.so -o {w}/out', writes='out', ran=True),
    Scenario('replay-server', 'replay', 'replay {f} --server {url} --timeout 10 -o {w}/out', writes='out', ran=True),
    Scenario('gate', 'gate', 'gate {f} --build {lib}/libtdkernels.so --lanes ops --junit {w}/junit.xml', judges=True),
    Scenario('gate-replay', 'replay', 'gate {f} --build {lib}/libtdkernels.so --lanes ops', judges=True),
    Scenario('gate-child', 'replay-child', 'gate {f} --build {lib}/libtdkernels.so --lanes ops', judges=True),
    Scenario('gate-differ', 'differ', 'gate {f} --build {lib}/libtdkernels.so --lanes ops', judges=True),
    Scenario('gate-plan', 'replay', 'gate {f} --build {lib}/libtdkernels.so --lanes ops --plan {w}/kept/candidate-0', judges=True, prepare=planned, few=True),
    Scenario('gate-accept', 'gate', 'gate {f} --build {helpers}/lib_misbehave.so --lanes ops --accept fine --until {until}', env={'TD_MISBEHAVE': 'zero'}, few=True),
    Scenario('baseline-server', 'gate', 'gate {f} --server {url} --baseline-server {url} --rounds 1 --lanes tokens --timeout 10', judges=True, few=True),
    Scenario('differ-smoke', 'differ', 'differ --smoke {f}', judges=True),
    Scenario('fixture-judge', 'fixture', 'fixture judge {f} --cache {w}/cache'),
    Scenario('tapedeck', 'tapedeck', 'tapedeck fixture ls {f}'),
    Scenario('record-run', 'record', 'record --server 127.0.0.1:{port} -o {w}/out --suite {suite} --repeat 1 --gemms all --timeout 10 --run -- {demo} --port {port}',
             writes='out', few=True),
    Scenario('gate-server', 'replay', 'gate {f} --server {url} --timeout 10', judges=True),
    Scenario('smoke', 'gate', 'gate --smoke --server {url} --timeout 10', judges=True),
    Scenario('smoke-record', 'record', 'gate --smoke --server {url} --timeout 10', judges=True, few=True),
    Scenario('record', 'record', 'record --server {url} -o {w}/out --suite {suite} --repeat 1 --gemms all --timeout 10', writes='out'),
    Scenario('pcap', 'record', 'record --pcap {w}/x.pcap -o {w}/out', writes='out', prepare=capture),
    Scenario('passive', 'record', 'record --passive --server {url} --interface lo --max-exchanges 3 --duration 20 -o {w}/out', writes='out', few=True,
             beside=ask),
    Scenario('code', 'fixture', 'fixture code {f} -o {w}/code.fatbin', reads=ops_with_code, file='code.fatbin'),
    *on_a_gpu('torch', 'python3', ROOT + '/tests/fakes/vllm_fake/python --only marlin*', ops_of_torch, {'FAKE_GPU': '1'}),
    *on_a_gpu('cuda', 'replay-child', DATA + 'gptq_like.fatbin', gptq_ops, CUDA), # e2e 061
    *on_a_gpu('ptx', 'replay-child', DATA + 'gptq_ptx.fatbin', gptq_ops, PTX), # 061
    *on_a_gpu('marlin', 'replay-child', DATA + 'marlin_like.fatbin', marlin_ops, MARLIN),
    *on_a_gpu('hip', 'replay-child', DATA + 'gptq_like.hsaco', gptq_ops, HIP), # 076
    *on_a_gpu('timed', 'replay-child', DATA + 'gptq_like.fatbin --baseline-build ' + DATA + 'gptq_like.fatbin --only *.1.*', gptq_ops, TIMED), # 062
]


def run(scenario, work, fail=None, under=()):
    """(exit code, stdout, stderr); None for the code after two minutes (ten under valgrind). work/counts gets the calls."""
    words, around = scenario.words, {'f': scenario.fixture(), 'w': work, 'lib': LIB, 'url': url, 'suite': suite, 'port': free_port(),
                                        'helpers': HELPERS[:-1], 'until': time.strftime('%Y-%m-%d', time.gmtime(time.time() + 30 * 86400)),
                                        'demo': BIN + '/demo-server --model ' + ROOT + '/demo/checkpoints/gptq4 --served-model-name demo'}
    env = dict(os.environ, TMPDIR=work + '/tmp', XDG_RUNTIME_DIR=runtime, TD_FAIL_PROGRAM=scenario.program, TD_FAIL_COUNTS=work + '/counts',
               LD_PRELOAD=FAIL, NO_COLOR='1', **{name: value.format(**around) for name, value in scenario.env.items()})
    env.pop('TD_FAIL_CALL', None)
    if fail:
        env['TD_FAIL_CALL'] = fail
        wrong = OURS.get(fail.split(':')[0])
        if wrong and scenario.judges and '{url}' in words:
            env['TD_FAIL_ERRNO'] = str(wrong)
    if scenario.reads and scenario.program == 'replay-child':
        env['TD_FAIL_CALLER'] = 'self'
    argv = words.format(**around).split() + FEWER * ('--build' in words)
    child = subprocess.Popen([*under, BIN + '/' + argv[0]] + argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=env, cwd=work, start_new_session=True)
    over = threading.Event()
    beside = threading.Thread(target=lambda: [scenario.beside() for _ in iter(over.is_set, True)]) if scenario.beside else None
    if beside:
        beside.start()
    try:
        out, err = child.communicate(timeout=600 if under else 120)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        child.communicate()
        return None, '', ''
    finally:
        over.set()
        if beside:
            beside.join()
    return child.returncode, out.decode(errors='replace'), err.decode(errors='replace')


def fresh(scenario):
    work = tempfile.mkdtemp(dir=base)
    os.mkdir(work + '/tmp')
    if scenario.prepare:
        scenario.prepare(work)
    return work


def digest(path):
    """One hash of all files of a folder."""
    h = hashlib.sha256()
    for folder, _, names in sorted(os.walk(path)):
        for name in sorted(names):
            h.update(name.encode())
            with open(os.path.join(folder, name), 'rb') as f:
                h.update(f.read())
    return h.hexdigest()


def tokens(path):
    """Tokens of all exchanges of a recording but the warm-up: nothing is made of that one, and `record` warns when it fails."""
    return sum(x.get('n_tokens', 0) for x in lines_of(path, 'exchanges') if x['phase'] != 'warmup' or 'role' in x)


def folder_contents(path):
    """The counts of records of each stream. Of the ledger those of its facts and sums: a run that takes longer has more lines."""
    with open(path + '/manifest.json', encoding='utf-8') as f:
        manifest = json.load(f)
    facts = {(x['section'], x['key']) for x in lines_of(path, 'ledger') if 'section' in x}
    streams = [str(file['records']) for name, file in sorted(manifest['files'].items()) if not name.startswith('ledger')]
    return (*streams, str(len(facts)), str(len(manifest.get('ledger', {}))))


def contents(scenario, path):
    """What a fixture holds, without times and sizes: its counts of records and blobs; of a recording those of exchanges,
    tokens, ops and blobs, for in how many pieces the bytes of an answer come is another number each time. None: it does not
    verify."""
    code, out = fixture_tool('verify', path)
    if code:
        return None
    records, blobs = re.search(r'(\d+) records in \d+ frames, (\d+) blobs', out).groups()
    if scenario.program != 'record':
        return folder_contents(path) if os.path.isdir(path) else (records, blobs)
    holds = re.search(r'^holds +(\d+) exchanges?(?:, \d+ steps?)?(?:, (\d+) ops?)?', fixture_tool('show', path)[1], re.M)
    return holds and (holds[1], str(tokens(path)), holds[2] or '0', blobs)


def bytes_of(path):
    """Those of a file. None: there is none."""
    try:
        with open(path, 'rb') as f:
            return f.read()
    except FileNotFoundError:
        return None


def lacks(seen, normal):
    """Does a fixture hold less than that of a run where nothing failed?"""
    return not seen or any(int(a) < int(b) for a, b in zip(seen, normal))


def steady(text, work):
    text = re.sub(r' itl=\S+\(info\)', '', text) # a time
    return re.sub(r'\d+(\.\d+)?(e[+-]\d+)?', '0', text.replace(work, 'W'))


def is_outlived(work):
    """Does a process of that run go on two seconds after its program? Its environment names the folder."""
    until = time.monotonic() + 2
    while True:
        pids = []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open('/proc/%s/environ' % pid, 'rb') as f:
                    pids += [int(pid)] if (work + '/counts').encode() in f.read() else []
            except OSError:
                pass
        if not pids or time.monotonic() > until:
            break
        time.sleep(0.05)
    for pid in pids:
        os.kill(pid, 9)
    return bool(pids)


def judge(scenario, work, fail, result, normal):
    """What is wrong with a run of `scenario`, or None."""
    code, out, err = result
    wrote = scenario.writes and work + '/' + scenario.writes
    made = scenario.file and work + '/' + scenario.file
    outlived = is_outlived(work)
    if code is None:
        return 'it did not end within two minutes'
    if outlived:
        return 'a process that it started goes on'
    if code < 0:
        return 'it died of signal %d' % -code
    if code not in (0, 1, 2, 3, 4):
        return 'exit %d is not documented' % code
    if digest(scenario.fixture()) != normal['digest']:
        return 'the fixture that it read has changed'
    left = os.listdir(work + '/tmp')
    if left:
        return 'it left %s' % left[0]
    if code == 0:
        if steady(out, work).splitlines()[-1:] != steady(normal['out'], normal['work']).splitlines()[-1:]:
            return 'exit 0, but its last line is not that of a run where nothing failed: %r' % out.splitlines()[-1:]
        if wrote and not os.path.exists(wrote):
            return 'exit 0, but it wrote nothing'
        if made and bytes_of(made) != normal['made']:
            return 'exit 0, but %s is not what it is where nothing fails' % scenario.file
        if wrote and lacks(contents(scenario, wrote), normal['contents']) and not (scenario.ran and contents(scenario, wrote)):
            return 'exit 0, but %s holds %s, not %s' % (scenario.writes, contents(scenario, wrote), normal['contents'])
        if scenario.program == 'record' and 'warning: ' not in err and any(x.get('error') for x in lines_of(wrote, 'exchanges')):
            return 'exit 0 and no warning, but an exchange failed'
    else:
        if scenario.judges and code == 1:
            return 'a false alarm: %r' % out.splitlines()[-1:]
        # verify prints what it finds on stdout; who cannot write cannot say why
        said = re.search(r'error: |warning: |verdict: (broken|inconclusive)|smoke: failed: ', err + out) or scenario.name == 'verify' and out
        if not said and not fail.startswith('write:'):
            return 'exit %d without a cause: %r' % (code, err[-200:])
        if 'verdict: pass' in out:
            return 'exit %d, but it says pass' % code
    if code and made and bytes_of(made) is not None:
        return 'exit %d, but it left %s' % (code, scenario.file)
    if code and wrote and os.path.isdir(wrote) and os.listdir(wrote) and contents(scenario, wrote) is None:
        repaired = fixture_tool('repair', wrote)[0]
        if os.path.exists(wrote + '/manifest.json') and (repaired or contents(scenario, wrote) is None):
            return 'what it wrote cannot be repaired'
    return None


def least(seen, scenario):
    """The smaller counts of this run and another one, where they depend on time."""
    work = fresh(scenario)
    code = run(scenario, work)[0]
    again = contents(scenario, work + '/' + scenario.writes) if code == 0 else None
    shutil.rmtree(work, ignore_errors=True)
    return tuple(min(a, b, key=int) for a, b in zip(seen, again)) if again else seen


def memcheck(scenario, fail):
    """What memcheck finds in the processes of `scenario.program`, or None."""
    work = fresh(scenario)
    code = run(scenario, work, fail, under=VALGRIND + ['--log-file=%s/valgrind.%%p' % work])[0]
    wrong = 'it did not end within ten minutes' if code is None else None
    for name in sorted(os.listdir(work)):
        if not wrong and name.startswith('valgrind.'):
            with open(work + '/' + name, encoding='utf-8', errors='replace') as f:
                text = f.read()
            found = re.search(r'(definitely lost in|Invalid (?:read|write|free)|Mismatched|overlap)', text)
            if found:
                wrong = text[max(0, found.start() - 80):][:1500]
    shutil.rmtree(work, ignore_errors=True)
    return wrong


def try_leaks(scenario, counts):
    """(runs, failures) under valgrind"""
    places = [(name, at) for name, n in counts for at in chosen(n)]
    places = [places[i * len(places) // RUNS] for i in range(RUNS)] if len(places) > RUNS else places
    failures, start = 0, time.monotonic()
    for i, (name, at) in enumerate(places):
        fail = '%s:%d%s' % (name, at, '+' if i & 1 else '')
        wrong = memcheck(scenario, fail)
        if wrong:
            failures += 1
            print('  %s: TD_FAIL_PROGRAM=%s TD_FAIL_CALL=%s: %s' % (scenario.name, scenario.program, fail, wrong), flush=True)
    print('%-24s %6d runs under valgrind, %3d failures, %.0f s' % (scenario.name, len(places), failures, time.monotonic() - start), flush=True)
    return len(places), failures


def places_of(scenario, name, n):
    """[(which call of a function fails, '' or '+')]"""
    if scenario.few or (scenario.reads and not scenario.file):
        return sample(n, max(1, CALLS // 3), '%d %s %s' % (SEED, scenario.name, name))
    return [(at, more) for at in chosen(n) for more in (('', '+') if at < n else ('',))]


def try_scenario(scenario):
    """(runs, failures)"""
    work = fresh(scenario)
    normal = dict(zip(('code', 'out', 'err'), run(scenario, work)))
    normal['work'] = work
    normal['made'] = bytes_of(work + '/' + scenario.file) if scenario.file else None
    normal['digest'] = digest(scenario.fixture())
    normal['contents'] = contents(scenario, work + '/' + scenario.writes) if scenario.writes else None
    if normal['contents'] and not scenario.prepare:
        normal['contents'] = least(normal['contents'], scenario)
    counts = list(read_counts(work + '/counts')[0].items())
    if normal['code'] or not counts:
        print('%-24s does not work when nothing fails: exit %s %s' % (scenario.name, normal['code'], normal['err'][-300:]))
        return 1, 1
    shutil.rmtree(work)
    if LEAKS:
        return try_leaks(scenario, counts)
    runs = failures = 0
    seen = set()
    start = time.monotonic()
    for fail in [from_the_start(fail, counts) for fail in ONLY] or ['%s:%d%s' % (name, at, more) for name, n in counts for at, more in places_of(scenario, name, n)]:
        work = fresh(scenario)
        wrong = judge(scenario, work, fail, run(scenario, work, fail), normal)
        name = fail.split(':')[0]
        runs += 1
        if wrong and not (name in REMOVERS and wrong.startswith('it left')):
            failures += 1
            key = (name, re.sub(r'\d+', '0', wrong))
            if key not in seen:
                print('  %s: TD_FAIL_PROGRAM=%s TD_FAIL_CALL=%s: %s' % (scenario.name, scenario.program, fail, wrong), flush=True)
            seen.add(key)
        shutil.rmtree(work, ignore_errors=True)
    print('%-24s %6d runs, %3d failures, %d functions, %.0f s' % (scenario.name, runs, failures, len(counts), time.monotonic() - start), flush=True)
    return runs, failures


def start_server():
    """(process, its address) of the demo server with the tap."""
    child = subprocess.Popen([BIN + '/demo-server', '--model', ROOT + '/demo/checkpoints/gptq4', '--served-model-name', 'demo', '--port', '0'],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env=dict(os.environ, LD_PRELOAD=LIB + '/libtapedeck-tap.so', XDG_RUNTIME_DIR=runtime))
    for line in child.stdout:
        if line.startswith('listening on '):
            return child, line.split('http://')[1].strip()
    sys.exit('fail_calls: the demo server did not start')


print('SEED=%d' % SEED, flush=True)
names = sys.argv[1:] or [s.name for s in SCENARIOS]
base = tempfile.mkdtemp(prefix='fail-calls-')
runtime = base + '/run'
os.mkdir(runtime, 0o700)
suite = base + '/suite.jsonl'
fixture = base + '/fixture'
with open(suite, 'w', encoding='ascii') as f:
    f.write('{"id":"one","category":"short","prompt":"In the beginning","max_tokens":3}\n'
            '{"id":"two","category":"short","prompt":"And the light","max_tokens":2}\n')
server, url = start_server()
try:
    done = subprocess.run([BIN + '/record', '--server', url, '-o', fixture, '--suite', suite, '--repeat', '1', '--gemms', 'all', '-q'],
                          capture_output=True, text=True, env=dict(os.environ, XDG_RUNTIME_DIR=runtime))
    if done.returncode:
        sys.exit('fail_calls: record: ' + done.stderr)
    total = [try_scenario(s) for s in SCENARIOS if s.name in names]
finally:
    server.terminate()
    server.wait()
    shutil.rmtree(base, ignore_errors=True)
runs, failures = (sum(c) for c in zip(*total)) if total else (0, 1)
print('fail_calls: %d runs, %d failures' % (runs, failures))
sys.exit(failures > 0)
