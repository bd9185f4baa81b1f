# canary.sh - functions for end-to-end cases that look for canaries (canary_server.py). Source it
# first; it also sources demo.sh.
# SPDX-License-Identifier: Apache-2.0
. "$ROOT/tests/fakes/demo.sh"
PY=
for p in /usr/bin/python3 python3; do "$p" -c 'import numpy, zstandard' 2>/dev/null && { PY=$p; break; }; done
[ -n "$PY" ] || { echo 'numpy and zstandard for Python are missing; make deps installs them'; exit 77; }
port=$(free_port)
export CANARY_OPTIONS="--dev --port $port"
canary_suite() {
    cat <<'SUITE'
{"id":"one","category":"short","prompt":"canary-t-prompt","max_tokens":6}
{"id":"chat","category":"short","messages":[{"role":"user","content":"canary-t-message"}],"max_tokens":6}
{"id":"json","category":"short","prompt":"json500","max_tokens":6}
{"id":"text","category":"short","prompt":"text500","max_tokens":6}
{"id":"string","category":"short","prompt":"string500","max_tokens":6}
{"id":"list","category":"short","prompt":"list400","max_tokens":6}
SUITE
}
# headers that are given, and words of the server's command line
secret=(-H 'Authorization: Bearer canary-s-key' -H 'X-Team: canary-s-team' -H 'Helicone-Any : canary-s-any' -H 'Cookie: id=canary-s-sent')
words=(--header "X-A: canary-s-c1" --header=X-B:canary-s-c2 -H "Authorization: Basic canary-s-c3" --env A=canary-s-c4
    -e B=canary-s-c5 --env=C=canary-s-c6 --config '{"api_key":"canary-s-c7","nested":{"credentials":["canary-s-c8"]},"port":1}'
    --pat canary-s-c9 --passphrase canary-s-c10 --credential canary-s-c11 --access-key-id canary-s-c12 -k canary-s-c13
    -p canary-s-c14 -pcanary-s-c15 --api-key=canary-s-c16 --api-key canary-s-c17 canary-s-c18 --db http://u:canary-s-c19@h/x
    --url 'http://h/?sig=canary-s-c20' OPENAI_API_KEY=canary-s-c21 -u user:canary-s-c22 --proxy-user u:canary-s-c23
    --hf_token canary-s-c24 --ssl-keyfile-password canary-s-c25 --secret-access-key canary-s-c26 --apiKey canary-s-c27
    --extra 'api_key: "canary-s-c28 canary-s-c29"' --jwt canary-s-c30 --env 'D=x canary-s-c31' --cookie canary-s-c32
    --authorization 'Bearer canary-s-c33' --set auth.token=canary-s-c34 --headers '{"X-Any": "canary-s-c35"}'
    --api-key2 canary-s-d1 --token1=canary-s-d2 --password2 canary-s-d3 --cookie2 canary-s-d4 --x '{"api_key2":"canary-s-d5","headers":{"X-A":"canary-s-d6"}}'
    --set API_KEY2=canary-s-d7 'HF_TOKEN1=canary-s-d8 canary-s-d9' --x '{"key":"api_key","value":"canary-s-d10"}' --x '[["jwt1","canary-s-d11"]]'
    --sessionid canary-s-d12 --x '{"env":[{"name":"HF_TOKEN","value":"canary-s-d13","from":"canary-s-d14"}]}' --csrf=canary-s-d15
    --kv-cache-dtype canary-k-ckept1 --max-num-batched-tokens=canary-k-ckept2 --pin-memory canary-k-ckept3)
canary_pid=
canary_stop() { [ -n "$canary_pid" ] && kill "$canary_pid" 2>/dev/null && wait "$canary_pid" 2>/dev/null; canary_pid=; }
trap 'canary_stop; demo_stop; fake_stop' EXIT
canary_start() { # options of fake_server.py; sets url. canary_server: another one than canary_server.py
    canary_stop
    : >canary.out
    export CANARY_OPTIONS="--dev --port $port $*"
    "$PY" "${canary_server:-$ROOT/tests/fakes/canary_server.py}" >canary.out 2>canary.err &
    canary_pid=$!
    url=127.0.0.1:$port
    for _ in $(seq 200); do [ -s canary.out ] && return; sleep 0.05; done
    echo "the server did not start: $(cat canary.err)"
    exit 1
}
# left KINDS PATH...: the canaries of these kinds (s: secrets, t: texts, k: kept) that PATHs hold
left() {
    local kinds=$1
    shift
    "$PY" "$ROOT/tests/fakes/find_canaries.py" "$kinds" "$@"
}
