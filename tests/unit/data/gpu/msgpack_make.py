#!/usr/bin/env python3
"""msgpack_make.py - msgpack.h: values as the Python package msgspec 0.22 packs them. usage: msgpack_make.py > msgpack.h
SPDX-License-Identifier: Apache-2.0"""
import struct
import msgspec

pack = msgspec.msgpack.encode
f64 = lambda x: struct.unpack('<Q', struct.pack('<d', x))[0]
values = [('NIL', 0, None), ('BOOL', 1, True), ('BOOL', 0, False), ('FLOAT', f64(1.5), 1.5)]
values += [('UINT', n, n) for n in (0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1)]
values += [('INT', n, n) for n in (-1, -32, -33, -128, -129, -32768, -32769, -2**31, -2**31 - 1, -2**63)]
values += [('STR', n, 'x' * n) for n in (0, 1, 31, 32, 255, 256)]
values += [('BIN', n, b'y' * n) for n in (0, 255, 256)]
values += [('ARRAY', n, [None] * n) for n in (0, 15, 16)] + [('MAP', n, {str(i): i for i in range(n)}) for n in (0, 15, 16)]
values += [('EXT', n + 1, msgspec.msgpack.Ext(7, b'z' * n)) for n in (1, 2, 4, 8, 16, 3, 256)]
print('/* made by msgpack_make.py: kind, number or length, packed bytes */')
for kind, number, value in values:
    b = pack(value)
    print('{TD_MP_%s, %dull, (const uint8_t[]){%s}, %d},' % (kind, number % 2**64, ', '.join(map(str, b)), len(b)))
