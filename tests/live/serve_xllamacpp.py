#!/usr/bin/env python3
"""serve_xllamacpp.py MODEL.gguf PORT - run llama.cpp's server from the wheel xllamacpp until
SIGTERM.

One thread and six slots, as in rows_llamacpp.sh. SPDX-License-Identifier: Apache-2.0
"""
import signal
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = int(sys.argv[2])
params.n_ctx = 8192
params.n_parallel = 6
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.endpoint_metrics = True
params.ui = False
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
while True:
    signal.pause()
