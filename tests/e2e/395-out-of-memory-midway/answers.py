"""answers.py - each reallocation of the demo server fails in turn, from one on: what it answers as a whole is whole."""
import http.client
import json
import os
import subprocess
import sys
import urllib.request

sys.dont_write_bytecode = True
ROOT, BIN, O = os.environ['ROOT'], os.environ['BIN'], os.environ['O']
sys.path.insert(0, ROOT + '/tests/torture')
from failing import read_counts

BODY = {'model': 'demo', 'prompt': 'And light', 'max_tokens': 8, 'temperature': 0, 'logprobs': 1, 'return_token_ids': True}


def ask(url, stream):
    """The text of a whole answer; None when it was refused, or cut off."""
    try:
        request = urllib.request.Request(url + '/v1/completions', json.dumps({**BODY, 'stream': stream}).encode(), {'Content-Type': 'application/json'})
        said = urllib.request.urlopen(request, timeout=20).read().decode()
    except (OSError, http.client.HTTPException):
        return None
    parts = [e[6:] for e in said.split('\n\n')] if stream else [said]
    if stream and '[DONE]' not in parts:
        return None
    return ''.join(json.loads(p)['choices'][0]['text'] for p in parts if p.startswith('{'))


def served(fail):
    """(answer of a stream, answer in one piece) of a fresh server."""
    env = dict(os.environ, LD_PRELOAD=O + '/tests/helpers/lib_fail_calls.so', TD_FAIL_PROGRAM='demo-server', TD_FAIL_COUNTS=os.getcwd() + '/counts')
    if fail:
        env['TD_FAIL_CALL'] = fail
    if os.path.exists('counts'):
        os.unlink('counts')
    child = subprocess.Popen([BIN + '/demo-server', '--model', ROOT + '/demo/checkpoints/gptq4', '--served-model-name', 'demo', '--port', '0'],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    line = child.stdout.readline()
    before = read_counts('counts')[0].get('realloc', 0)
    got = tuple(ask(line.split()[-1], stream) for stream in (True, False)) if 'http://' in line else (None, None)
    child.terminate()
    child.wait()
    return got, before, read_counts('counts')[0].get('realloc', 0)


whole, before, after = served(None)
assert whole[0] == whole[1] and len(whole[0]) > 4 and after > before + 40, (whole, before, after)
half, cut = 0, 0
for at in range(before + 1, after + 1, 2):
    for got in served('realloc:%d+' % at)[0]:
        cut += got is None
        if got not in (None, whole[0]):
            half += 1
            print('realloc:%d+: a whole answer with the text %r, not %r' % (at, got, whole[0]))
print('%d answers of which a part is missing%s' % (half, '' if cut > 20 else '; only %d were cut' % cut))
