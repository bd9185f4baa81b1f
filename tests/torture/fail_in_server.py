#!/usr/bin/env python3
"""fail_in_server.py [FAMILY[/PART] ...] - let every call of the C library fail in turn inside a server with the tap, while it is recorded.

A family is a server: the demo server, or the fake one on a fake GPU, whose steps are launches, operators of torch, or CUDA graphs
(its end-to-end case stands beside it). The calls of a family are counted in a run where nothing fails (tests/helpers/lib_fail_calls.c),
in two parts, told apart by the library to which a call returns:

  tap   only calls that the tap itself makes fail. The server must not notice: it starts, gives each answer that it gives without
        the tap, computes in each step what it computes without it (tests/helpers/step_results.h), answers when `record` is gone,
        and ends when it is told to;
  own   only calls that the rest of the server makes fail. It may refuse to start, or a request, or end; the demo server says why.
        An answer that it gives is right.

Whatever fails: `record` ends by itself with a documented code, and a cause unless it is 0; what it wrote verifies; after exit 0 it
holds all exchanges and ops of a run where nothing failed, and its ops can be judged as there; no op that was recorded is one for
which Tapedeck's own kernels are blamed; no process stays.

Of each function that a family's part calls, CASES (1) cases are tried: the first call, the last, or any between, alone ("once") or
with all that follow ("on"), as SEED chooses (the time, if none is given; it is printed). CALLS=N instead: N places of each function,
evenly spread, each once and on. JOBS (2) run at once.
TD_FAIL_CALL="malloc:3+ ..." instead: these alone.
Prints a row for each family and part, and every failure with what repeats it; the last line counts. Exit 1 if one failed.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import http.client
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.dont_write_bytecode = True
from failing import BIN, FAIL, LIB, O, ROOT, SEED, chosen, fixture_tool, lines_of, read_counts, sample

CALLS = int(os.environ.get('CALLS', '0'))
CASES = int(os.environ.get('CASES', '1'))
JOBS = int(os.environ.get('JOBS', '2'))
TAP = os.environ.get('TD_TAP_LIBRARY', LIB + '/libtapedeck-tap.so')
HELPERS = O + '/tests/helpers/'
MODEL = ROOT + '/demo/checkpoints/gptq4'
FAKE = ['python3', '-B', ROOT + '/tests/fakes/fake_server.py', '--seconds', '120', '--port', '{port}', '--model', '{model}', '--gpu']
CUDA = {'libcuda.so.1': 'lib_fake_cuda', 'libcupti.so.13': 'lib_fake_cupti', 'libcublas.so.13': 'lib_fake_cublas'}
CUDART = {**{k: v for k, v in CUDA.items() if k != 'libcupti.so.13'}, 'libcudart.so.13': 'lib_fake_cudart'}
HIP = {'libamdhip64.so.6': 'lib_fake_hip', 'libhipblas.so.2': 'lib_hip_model_blas'}
ON_CUDA, ON_HIP = [HELPERS + 'lib_cuda_model.so'], [HELPERS + 'lib_hip_model.so']
TORCH = ['--torch', HELPERS + 'lib_fake_torch_ops.so']


class Family:
    """server: its command; {port}, {w}, {model}: a port, the run's folder, a checkpoint. libraries: {name: helper} in LD_LIBRARY_PATH. options: of `record`.
    run: `record --run` starts it, else it runs already. parts: which calls fail. steps: what the Python file of --steps holds. model: the checkpoint's folder."""

    def __init__(self, name, server, libraries=None, env=None, options=(), run=False, parts=('tap',), tap_env=None, steps='', model='model'):
        self.name, self.server, self.libraries, self.env = name, server, libraries or {}, env or {}
        self.options, self.run, self.parts, self.tap_env = list(options), run, parts, tap_env or {}
        self.steps, self.model = steps, model


DEMO = [BIN + '/demo-server', '--model', MODEL, '--served-model-name', 'demo', '--port', '{port}']
GGML_STEPS = '''import ctypes
library = ctypes.CDLL({helpers!r} + 'lib_fake_llama.so')
library.fake_command.restype = ctypes.c_long
def gpu_model_step(rows):
    return library.fake_command(b"graphs 1")
'''
VLLM_STEPS = '''import ctypes, json, struct
library = ctypes.CDLL({helpers!r} + 'lib_vllm_model.so')
with open({model!r} + "/model.safetensors", "rb") as f:
    n, = struct.unpack("<Q", f.read(8))
    head = json.loads(f.read(n))
    data = f.read()
at = [data[slice(*head[name]["data_offsets"])] for name in {layers!r}]
assert library.vllm_model_open(*at) == 0
gpu_model_step = library.gpu_model_step
'''
DENSE = ['model.layers.0.self_attn.o_proj.weight', 'model.layers.0.mlp.gate_proj.weight'] # of lib_vllm_model.c
OPERATORS = {'TD_GPU_MODEL_OPERATORS': '1'}
FAMILIES = [
    Family('demo', DEMO, parts=('tap', 'own')), # e2e 120
    Family('demo-run', DEMO, run=True, parts=('tap', 'own')), # 113
    Family('ggml', FAKE[:-3] + ['--steps', '{w}/steps.py'], options=['--all-ops'], steps=GGML_STEPS), # test_tap_ggml
    Family('vllm', FAKE[:-3] + ['--steps', '{w}/steps.py'], steps=VLLM_STEPS, model='dense'), # its CPU front: test_tap_vllm
    Family('cuda', FAKE + ON_CUDA, CUDA), # 121
    Family('flight', FAKE + ON_CUDA, CUDA, options=['--flight']), # 126
    Family('ranks', FAKE + ON_CUDA + ['--ranks', '2'], CUDA, {'TD_FAKE_CUDA_DEVICES': '2'}, run=True, parts=('tap', 'own'), model='halves'), # 123
    Family('torch', FAKE + ON_CUDA + TORCH, CUDA, OPERATORS), # 069
    Family('all-ops', FAKE + ON_CUDA + TORCH, CUDA, {**OPERATORS, 'TD_GPU_MODEL_BESIDE': '1'}, ['--all-ops']), # 086
    Family('graphs', FAKE + ON_CUDA + ['--graphs', '1,4'], CUDA, options=['--graphs'], run=True), # 122
    Family('twins', FAKE + ON_CUDA + TORCH + ['--graphs', '1,4'], CUDART, {**OPERATORS, 'TD_GPU_MODEL_CUDART': '1'}, ['--launches', 'off']), # 132
    Family('hip', FAKE + ON_HIP, HIP), # 128
]
PROMPTS = {'two': 'And light', 'three': 'Let there be'} # a row for each word


class Run:
    """One recording of one server. part: '', 'tap' or 'own'; fail: 'malloc:3+' or None."""

    def __init__(self, family, part, fail):
        self.family, self.part, self.fail = family, part, fail
        self.work = tempfile.mkdtemp(dir=base)
        self.out = self.work + '/out'
        self.server, self.started, self.ended, self.answers = None, None, None, []

    def model(self):
        return MODEL if self.family.server is DEMO else base + '/' + self.family.model

    def patience(self):
        """Seconds to wait for an answer. A server whose own calls fail for ever may be deaf."""
        return '4' if self.part == 'own' else '20'

    def environment(self):
        f = self.family
        env = dict(os.environ, TD_TAP_DIR=self.work + '/taps', TMPDIR=self.work + '/tmp', NO_COLOR='1', LD_PRELOAD=FAIL, TD_TAP_LIBRARY=TAP,
                   TD_GPU_MODEL_RESULTS=self.work + '/results', TD_FAIL_COUNTS=self.work + '/counts', **f.env)
        if f.libraries:
            os.mkdir(self.work + '/lib')
            for name, helper in f.libraries.items():
                os.symlink(HELPERS + helper + '.so', self.work + '/lib/' + name)
            env['LD_LIBRARY_PATH'] = self.work + '/lib'
        for folder in ('taps', 'tmp'):
            os.mkdir(self.work + '/' + folder, 0o700)
        with open(self.work + '/steps.py', 'w', encoding='ascii') as file:
            file.write(f.steps.format(helpers=HELPERS, model=self.model(), layers=DENSE))
        env.pop('TD_FAIL_CALL', None)
        if self.part:
            env['TD_FAIL_CALLER'] = ('!' if self.part == 'own' else '') + os.path.basename(TAP)
        if self.fail:
            env['TD_FAIL_CALL'] = self.fail
        return env

    def record(self, env, url, command):
        """(exit code or None, stdout and stderr)"""
        argv = [BIN + '/record', '--server', url, '-o', self.out, '--suite', suite, '--repeat', '1', '-n', '2', '-c', '1', '--gemms', 'all', '--scores', 'off',
                '--timeout', self.patience(), '--checkpoint', self.model(), *self.family.options, *command]
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, cwd=self.work)
        try:
            said = child.communicate(timeout=120)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return None, ''
        return child.returncode, said.decode(errors='replace')

    def start(self, env, argv):
        """Start the server by itself; its URL, or None."""
        with open(self.work + '/server', 'wb') as log:
            self.server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=env, cwd=self.work)
        line = self.server.stdout.readline().decode() # "" when it has ended
        return line.split('http://')[1].strip() if 'http://' in line else None

    def ask(self, url):
        """What the server answers now."""
        body = json.dumps({'model': 'demo', 'prompt': PROMPTS['three'], 'max_tokens': 2, 'temperature': 0, 'logprobs': 1}).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request('http://%s/v1/completions' % url, body, {'Content-Type': 'application/json'}), timeout=float(self.patience())) as reply:
                text = reply.read().decode()
        except (OSError, http.client.HTTPException) as e:
            return repr(e)
        if not text.startswith('{'): # the fake server's events
            return text
        return json.dumps([json.loads(text)['choices'][0].get(k) for k in ('text', 'logprobs', 'finish_reason')])

    def end(self):
        """End the server. How it ended, or None after 20 s."""
        if self.server.poll() is None:
            self.server.terminate()
        try:
            return self.server.wait(20)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
            return None

    def by_microhttpd(self):
        """Did the library of the demo server that reads HTTP end it? It aborts where it cannot wake its own thread."""
        with open(self.work + '/server', encoding='utf-8', errors='replace') as f:
            return 'Fatal error in GNU libmicrohttpd' in f.read()

    def do(self):
        env = self.environment()
        free = socket.socket()
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
        free.close()
        argv = [w.format(port=port, w=self.work, model=self.model()) for w in self.family.server]
        if self.family.run:
            self.code, self.said = self.record(env, '127.0.0.1:%d' % port, ['--wait=20', '--run', '--', *argv])
        else:
            with_tap = dict(env, LD_PRELOAD=FAIL + ' ' + TAP, CUDA_INJECTION64_PATH=TAP)
            url = self.start(with_tap, argv)
            self.started = url is not None
            if url:
                self.answers.append(self.ask(url))
                self.code, self.said = self.record(env, url, [])
                self.alive = self.server.poll() is None
                self.answers.append(self.ask(url) if self.alive else 'gone')
            self.ended = self.end()
        self.left = end_children()
        self.counts, self.failed = read_counts(self.work + '/counts')
        self.results = []
        for name in sorted(os.listdir(self.work)):
            if name.startswith('results'):
                with open(self.work + '/' + name, encoding='ascii') as f:
                    self.results += [name + ' ' + line for line in f.read().splitlines()]
        return self


def one_layer(path, to):
    """Write the checkpoint of a folder with its first decoder layer alone, for a fake GPU computes on the host."""
    with open(path + '/model.safetensors', 'rb') as f:
        raw = f.read()
    n = struct.unpack_from('<Q', raw)[0]
    head, data = {}, b''
    for name, t in json.loads(raw[8:8 + n]).items():
        if name.startswith('model.layers.0.'):
            a, b = t['data_offsets']
            head[name] = dict(t, data_offsets=[len(data), len(data) + b - a])
            data += raw[8 + n + a:8 + n + b]
    write_checkpoint(to, head, data)
    shutil.copy(path + '/config.json', to)


def dense(to):
    """Write the checkpoint of VLLM_STEPS."""
    head, data = {}, b''
    for i, name in enumerate(DENSE):
        head[name] = {'dtype': 'BF16', 'shape': [64, 64], 'data_offsets': [len(data), len(data) + 2 * 64 * 64]}
        data += b''.join(struct.pack('<f', (j * (31 + 8 * i) % 251 - 125) / 1024)[2:] for j in range(64 * 64)) # exact in bf16
    write_checkpoint(to, head, data)
    with open(to + '/config.json', 'w', encoding='ascii') as f:
        json.dump({'model_type': 'llama', 'hidden_size': 64, 'intermediate_size': 64, 'num_hidden_layers': 1, 'num_attention_heads': 1, 'vocab_size': 64}, f)


def write_checkpoint(to, head, data):
    text = json.dumps(head).encode()
    text += b' ' * (-len(text) % 8)
    os.mkdir(to)
    with open(to + '/model.safetensors', 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + data)


def prepare():
    """The suite and the checkpoints of all runs."""
    global suite
    suite = base + '/suite.jsonl'
    with open(suite, 'w', encoding='ascii') as f:
        for name, prompt in PROMPTS.items():
            f.write(json.dumps({'id': name, 'prompt': prompt}) + '\n')
    one_layer(MODEL, base + '/model')
    dense(base + '/dense')
    subprocess.run([sys.executable, ROOT + '/tests/e2e/123-tap-ranks/checkpoint.py', MODEL, base + '/groups-of-64'], check=True)
    one_layer(base + '/groups-of-64', base + '/halves')


def end_children():
    """End the orphans that became ours, and say what they were: this process is their reaper."""
    left = []
    with open('/proc/self/task/%d/children' % os.getpid(), encoding='ascii') as f:
        pids = [int(p) for p in f.read().split()]
    for pid in pids:
        try:
            with open('/proc/%d/stat' % pid, encoding='utf-8', errors='replace') as f:
                name, state = re.search(r'\((.*)\) (\S)', f.read()).groups()
            if state != 'Z':
                left.append(name)
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (OSError, ChildProcessError):
            pass
    return left


def exchanges(path):
    """{(phase, prompt, of how many tokens a warm-up is): (tokens, logprobs, text)} of the answers that came; and how many failed."""
    got, failed = {}, 0
    for x in lines_of(path, 'exchanges'):
        if x.get('error'):
            failed += 1
        else:
            got[(x['phase'], x.get('prompt_id'), x['phase'] == 'warmup' and x.get('n_tokens'))] = (x.get('token_ids'), x.get('logprobs'), x.get('text'))
    return got, failed


def sound_run(family, part):
    """A run where nothing fails. A machine with much other work gets three tries: the tap answers `record` too late there."""
    for _ in range(3):
        run = Run(family, part, None).do()
        if run.code == 0:
            break
    return run


class Truth:
    """What a family does when nothing fails: its answers, results, and the fewest ops. Its calls are counted, a run for each part."""

    def __init__(self, family):
        runs = [sound_run(family, part) for part in (*family.parts, '')]
        self.counts = {run.part: run.counts for run in runs}
        self.error = next(('exit %s, left %s: %s' % (r.code, r.left, r.said[-400:]) for r in runs if r.code or r.left), None)
        if self.error:
            return
        self.exchanges = exchanges(runs[0].out)[0]
        self.ops = min(len(lines_of(r.out, 'ops')) for r in runs)
        self.judged = verdict_of(runs[0])[1] == 0
        self.answers = runs[0].answers
        self.results = {line for r in runs for line in r.results}
        self.ended = runs[0].ended
        same = {repr(exchanges(r.out)[0]) for r in runs}
        if len(same) > 1 or any(r.answers != self.answers for r in runs) or len({line.rsplit(' ', 1)[0] for line in self.results}) < len(self.results):
            self.error = 'two runs where nothing fails differ'
        elif not self.ops:
            self.error = 'no op is recorded when nothing fails'
        elif self.answers and self.answers[0] != self.answers[1]:
            self.error = 'the answers before and after the recording differ: %s' % self.answers


def judge_server(run, truth):
    """What is wrong with the server of a run, or None."""
    demo = run.family.server is DEMO
    if run.part == 'tap':
        if run.started is False:
            return 'the server did not start, though only calls of the tap failed (exit %s)' % run.ended
        if not run.family.run and not run.alive:
            return 'the server ended while it was recorded (%s)' % run.ended
        if run.answers != truth.answers:
            return 'the server answered otherwise: %s' % run.answers
        if not run.family.run and run.ended != truth.ended:
            return 'the server ended with %s, not %s' % (run.ended, truth.ended)
    elif not run.family.run:
        if run.ended is None:
            return 'the server did not end when it was told to'
        if demo and run.ended < 0 and not run.by_microhttpd():
            return 'the demo server died of signal %d' % -run.ended
        if run.started is False and not run.failed:
            return 'the server did not start, and no call failed'
    wrong = [line for line in run.results if line not in truth.results]
    return 'a step computed something else: %s' % wrong[0] if wrong and run.part == 'tap' else None


def judge_recording(run, truth):
    """What is wrong with a recording, or None."""
    if run.code is None:
        return 'record did not end within two minutes'
    if run.code not in (0, 4):
        return 'record: exit %d' % run.code
    if run.code and not re.search(r'error: ', run.said):
        return 'record: exit 4 without a cause: %r' % run.said[-200:]
    there = os.path.isdir(run.out) and os.listdir(run.out)
    if run.code == 0 and not there:
        return 'record: exit 0, and no fixture'
    if not there:
        return None
    code, said = fixture_tool('verify', run.out)
    if code:
        return 'what was recorded does not verify: %r' % said[-200:]
    got, failed = exchanges(run.out)
    for key, answer in got.items():
        if key in truth.exchanges and answer != truth.exchanges[key]:
            return 'the answer %s is %s, not %s' % (key, answer, truth.exchanges[key])
    if run.part == 'tap' and failed:
        return '%d requests failed, though only calls of the tap failed: %s' % (failed, run.said[-300:])
    got, want = ({k: v for k, v in x.items() if k[0] != 'warmup'} for x in (got, truth.exchanges)) # nothing is made of that one
    if run.code == 0 and (failed and 'warning: ' not in run.said or len(got) < len(want)):
        return 'exit 0 with %d of %d answers, %d failed' % (len(got), len(want), failed)
    ops = len(lines_of(run.out, 'ops'))
    if run.code == 0 and ops < truth.ops:
        return 'exit 0 with %d of %d ops' % (ops, truth.ops)
    return judge_ops(run, truth) if ops else None


def verdict_of(run):
    """The last line of a gate of the recorded ops by Tapedeck's own kernels, and its exit code."""
    done = subprocess.run([BIN + '/gate', run.out, '--provider', 'cpu', '--lanes', 'ops', '--max-ops', '40'], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=dict(os.environ, TMPDIR=run.work + '/tmp'))
    return (done.stdout.splitlines() or [''])[-1], done.returncode


def judge_ops(run, truth):
    """Are the recorded ops what the server computed? And can they all be judged, if nothing is said to be missing?"""
    last, code = verdict_of(run)
    if code == 1 or 'regressed' in last:
        return 'its ops are wrong: ' + last
    return 'its ops cannot be judged: ' + last if run.code == 0 and truth.judged and code else None


def judge(run, truth):
    if run.left:
        return 'it left %s' % ', '.join(run.left)
    wrong = judge_server(run, truth)
    return wrong or (judge_recording(run, truth) if run.started is not False else None)


def one(case):
    """(family, part, did a call fail, did the server start, what is wrong, what repeats it)"""
    name, part, fail = case
    run = Run(next(f for f in FAMILIES if f.name == name), part, fail)
    start = time.monotonic()
    try:
        run.do()
        wrong = judge(run, truths[name])
        if os.environ.get('SLOW') and time.monotonic() - start > 10:
            print('  %s (%s) TD_FAIL_CALL=%s: %.0f s' % (name, part, fail, time.monotonic() - start), flush=True)
        return name, part, run.failed > 0, run.started is not False, wrong, fail
    finally:
        if not os.environ.get('KEEP'):
            shutil.rmtree(run.work, ignore_errors=True)


def begin_job():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) # PR_SET_CHILD_SUBREAPER
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def truth_of(name):
    return name, Truth(next(f for f in FAMILIES if f.name == name))


def cases_of(family, truth, only):
    """The calls of a family that are to fail, and how: of all functions that each part calls, or `only` these."""
    for part in family.parts:
        for function, n in truth.counts[part].items():
            if only:
                places = [(word.split(':')[1], '') for word in only if word.startswith(function + ':')]
            elif CALLS:
                places = [(at, more) for at in chosen(n, CALLS) for more in (('', '+') if at < n else ('',))]
            else:
                places = sample(n, CASES, '%d %s %s %s' % (SEED, family.name, part, function))
            for at, more in places:
                yield family.name, part, '%s:%s%s' % (function, at, more)


def main():
    global base, truths
    for word in sys.argv[1:]:
        for f in FAMILIES:
            if word.startswith(f.name + '/'):
                f.parts = [word[len(f.name) + 1:]]
    names = [word.split('/')[0] for word in sys.argv[1:]] or [f.name for f in FAMILIES]
    only = os.environ.get('TD_FAIL_CALL', '').split() # these and no others
    base = tempfile.mkdtemp(prefix='fail-in-server-')
    start, rows, bad, seen = time.monotonic(), {}, 0, set()
    fresh = multiprocessing.get_context('fork')
    if not CALLS and not only:
        print('SEED=%d CASES=%d' % (SEED, CASES), flush=True)
    try:
        prepare()
        with fresh.Pool(JOBS, begin_job) as pool:
            truths = dict(pool.map(truth_of, names, 1))
        for name, truth in truths.items():
            if truth.error:
                sys.exit('fail_in_server: %s does not work when nothing fails: %s' % (name, truth.error))
        cases = [c for f in FAMILIES if f.name in names for c in cases_of(f, truths[f.name], only)]
        with fresh.Pool(JOBS, begin_job) as pool: # forked again: it knows the truths
            for name, part, failed, started, wrong, fail in pool.imap_unordered(one, cases, 1):
                row = rows.setdefault((name, part), [0, 0, 0, 0])
                row[0] += 1
                row[1] += failed
                row[2] += not started
                row[3] += wrong is not None
                key = (name, part, fail.split(':')[0], re.sub(r'\d+', '0', wrong or ''))
                if wrong and key not in seen:
                    print('  %s (%s) TD_FAIL_CALL=%s: %s' % (name, part, fail, wrong), flush=True)
                seen.add(key)
    finally:
        if not os.environ.get('KEEP'):
            shutil.rmtree(base, ignore_errors=True)
    for f in FAMILIES:
        for part in f.parts:
            if (f.name, part) in rows:
                n, failed, refused, wrong = rows[f.name, part]
                bad += wrong
                print('%-10s %-4s %5d cases, in %d of them a call failed, in %d the server did not start; %d failures' % (f.name, part, n, failed, refused, wrong))
    print('fail_in_server: %d cases, %d failures, %.0f s' % (len(cases), bad, time.monotonic() - start))
    return not cases or bad > 0


if __name__ == '__main__':
    sys.exit(main())
