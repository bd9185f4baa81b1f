# lib.sh - functions for end-to-end cases that use fake_server.py: fake_start, fake_stop, and
# `exchanges`, which prints the stable part of a fixture's exchanges. A server is ended by its own
# pid.
# SPDX-License-Identifier: Apache-2.0
fake_pids=
fake_stop() { for p in $fake_pids; do kill "$p" 2>/dev/null && wait "$p" 2>/dev/null; done; fake_pids=; }
trap fake_stop EXIT
fake_start() { # options of fake_server.py; sets url and fake_pid
    : >fake.out # else the line of the last server is read
    python3 "$ROOT/tests/fakes/fake_server.py" "$@" >fake.out 2>fake.err &
    fake_pid=$!
    fake_pids="$fake_pids $fake_pid"
    url=
    for _ in $(seq 200); do
        url=$(sed -n 's/^listening on http:\/\///p' fake.out)
        [ -n "$url" ] && return
        sleep 0.05
    done
    echo "the fake server did not start: $(cat fake.err)"
    exit 1
}
# exchanges FIXTURE: the number of exchanges of each kind (phase, error, tokens, ids, logprobs,
# text)
exchanges() {
    zstd -dcq "$1/exchanges.jsonl.zst" | python3 -c '
import collections, json, sys
c = collections.Counter()
for line in sys.stdin:
    e = json.loads(line)
    c[(e["phase"], e["api"], e["path"], e.get("http_status"), e.get("error_kind") or "ok", (e.get("error") or "")[:90], e["n_tokens"], bool(e.get("token_ids")),
       e.get("ids_complete", False), (e.get("logprobs") or [None])[0], e.get("top_k", 0), e.get("finish_reason"), e.get("text", "")[:24])] += 1
for k, n in sorted(c.items(), key=str):
    print(n, *k, sep=" | ")'
}
