# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess

from captures import RECORD, case, lines_of, show
from packets import (ACK, ETHERNET, FIN, NULL, PSH, RAW, RST, SLL, SLL2, STREAM_END, STREAM_HEAD, SYN, Connection, Packet,
                     answer, event, request, write)


def whole(c):
    return c.open() + c.request() + c.answer() + c.close()


def two(c):
    """Two requests on one connection; the packets of each part."""
    return c.open(), c.request("one"), c.answer("first"), c.request("two"), c.answer("second"), c.close()


print("-- what carries it")
for link, name in ((ETHERNET, "Ethernet"), (NULL, "loopback"), (RAW, "raw IP"), (SLL, "Linux cooked"), (SLL2, "Linux cooked 2")):
    case(name, whole(Connection()), link=link)
case("IPv6", whole(Connection(("::1", 40000), ("::1", 8000))))
for tags in (1, 2):
    packets = whole(Connection())
    for p in packets:
        p.vlan = tags
    case(f"{tags} VLAN tag(s)", packets)
for form in ("pcap", "nanoseconds", "pcapng"):
    case(form, whole(Connection()), form=form, start_ns=1_700_000_000_123_456_789, step_ns=1_000_001, more=["t_sent_ns"])
write("x.pcap", whole(Connection()))
show("standard input", file="-", data=open("x.pcap", "rb").read())
other = whole(Connection(("127.0.0.1", 1), ("127.0.0.1", 9000)))
case("another server, told apart by --server", other + whole(Connection()), "--server", "127.0.0.1:8000")
case("the same by a name", other + whole(Connection()), "--server", "localhost:8000")
case("no packet of that server", other, "--server", "127.0.0.1:8000")

print("-- segments")
o, q, a, q2, a2, z = two(Connection())
case("out of order", o + q + a[::-1] + q2 + a2 + z)
c = Connection()
case("many small ones, backwards", c.open() + c.request(size=40)[::-1] + c.answer(size=30)[::-1] + c.close())
c = Connection()
case("each twice", [p for p in c.open() + c.request(size=50) + c.answer(size=50) + c.close() for _ in range(2)])
c = Connection()
o, q = c.open(), c.request()
a = c.answer(size=60)
a.insert(2, Packet(a[0].source, a[0].target, a[0].seq + 30, a[0].ack, ACK, a[0].data[30:] + a[1].data))
case("overlapping", o + q + [a[0], a[2], a[1]] + a[3:] + c.close())
c = Connection()
o, q, a = c.open(), c.request(), c.answer(size=60)
liar = Packet(a[1].source, a[1].target, a[1].seq, a[1].ack, ACK, b"!" * len(a[1].data))
case("overlapping, and they disagree", o + q + [a[1], liar, a[0]] + a[2:] + c.close())
c = Connection(isn=(2**32 - 60, 2**32 - 100))
case("sequence numbers that wrap", c.open() + c.request(size=50)[::-1] + c.answer(size=50)[::-1] + c.close())
o, q, a, q2, a2, z = two(Connection())
p = Packet(("127.0.0.1", 8000), ("127.0.0.1", 40000), 0, 0, ACK, b"x" * 30)
p.fragment = 0x2000
case("an IP fragment", o + q + [p] + a + q2 + a2 + z)
p = Packet(("127.0.0.1", 8000), ("127.0.0.1", 40000), 0, 0, ACK)
p.raw = b"\2" * 12 + b"\x08\x06" + bytes(28)
case("ARP", o + q + [p] + a + q2 + a2 + z)

print("-- what the capture lost")
o, q, a, q2, a2, z = two(Connection())
case("a request", o + a + q2 + a2 + z)
case("an answer", o + q + q2 + a2 + z)
c = Connection()
o, q, a, q2, a2 = c.open(), c.request("one"), c.answer("first", size=60), c.request("two"), c.answer("second")
case("a part of an answer", o + q + a[:1] + a[2:] + q2 + a2 + c.close())
c = Connection()
o, q, a, q2, a2 = c.open(), c.request("one", size=60), c.answer("first"), c.request("two"), c.answer("second")
case("a part of a request", o + q[:1] + q[2:] + a + q2 + a2 + c.close())
o, q, a, q2, a2, z = two(Connection())
case("an answer and the next request, in one burst", o + q[:1] + a2 + z)
c = Connection()
o, q = c.open(), c.request("its tail is lost", size=60)
case("the end of a request", o + q[:-2] + c.answer() + c.request("two") + c.answer("second") + c.close())
c = Connection()
o, q = c.open(), c.send(True, request("one") + request("two") + request("three"))
case("the first of three pipelined answers", o + q + sum((c.send(False, answer(x)) for x in ("1st", "2nd", "3rd")), [])[1:])
c = Connection()
o, q = c.open(), c.send(True, request("one")) + c.send(True, request("two")) + c.send(True, request("three"))
case("the first of three pipelined requests", o + q[2:] + sum((c.send(False, answer(x)) for x in ("1st", "2nd", "3rd")), []))
c = Connection()
o, big = c.open(), request("x" * 200 + "GET it done please")
at = big.index(b"GET it")
q = [c.segment(True, part, PSH | ACK) for part in (big[:100], big[100:at], big[at:])]
case("a part of a request, and what follows looks like another", o + [q[0], q[2]] + c.answer("first") + c.request("two")
     + c.answer("second") + c.request("three") + c.answer("third"))
c = Connection()
o, q, big = c.open(), c.request("how do I speak http"), answer("HTTP/1.1 200 OK " * 9)
at = big.index(b"HTTP/1.1 200 OK", 40)
forged = [c.segment(False, part, PSH | ACK) for part in (big[:at], big[at:])]
case("the head of an answer, and its body looks like another", o + q + forged[1:] + c.request("two") + c.answer("second"))
packets = whole(Connection())
for p in packets:
    p.snap = 200
case("cut by the snap length", packets)
for p in packets:
    p.snap = 50
case("cut within the headers", packets)

print("-- connections")
o, q, a, q2, a2, z = two(Connection())
case("keep-alive", o + q + a + q2 + a2 + z)
case("began before the capture", q + a + q2 + a2)
case("began in mid-answer", a[1:] + q2 + a2)
case("the capture ends before the answer", o + q + a + q2)
c = Connection()
case("pipelined", c.open() + c.send(True, request("one") + request("two")) + c.send(False, answer("first") + answer("second"))
     + c.close())
case("ports used again", whole(Connection()) + whole(Connection(isn=(900000, 70000))))
c = Connection()
o = c.open()
case("SYN sent again, late", o + c.request() + o[:2] + c.answer() + c.close())
d = whole(Connection(isn=(900000, 70000)))
case("ports used again, of which SYN is lost", whole(Connection())[:-3] + d[1:])
d = whole(Connection(isn=(2**30, 2**31)))
case("ports used again, of which SYN and its answer are lost", whole(Connection())[:-3] + d[3:])
o, q, a, q2, a2, z = two(Connection())
case("the answer to SYN is lost, and that to the first request", o[:1] + o[2:] + q + q2 + a2 + z)
c = Connection()
o, q, a, q2, a2 = c.open(), c.request("one", size=60), c.answer("first"), c.request("two"), c.answer("second")
case("SYN is lost, and the first request begins in the middle", o[1:] + q[1:] + a + q2 + a2 + c.close())
c = Connection()
packets = c.open() + sum((c.send(True, request(str(i))) for i in range(258)), [])
case("258 requests that wait", packets + sum((c.answer(f"A{i}") for i in range(258)), []), brief=True)
c, d = Connection(), Connection(isn=(900000, 70000))
case("ports used again without an end", c.open() + c.request("lost") + whole(d))
c = Connection()
half = c.open() + c.request() + [c.segment(True, flags=FIN | ACK)]
case("half-closed by the client", half + c.answer() + [c.segment(False, flags=FIN | ACK)])
c = Connection()
case("reset in mid-answer", c.open() + c.request() + c.send(False, answer()[:60]) + [c.segment(True, flags=RST)])
c = Connection()
case("closed in mid-answer", c.open() + c.request() + c.send(False, answer()[:60]) + [c.segment(False, flags=FIN | ACK)])
c = Connection()
case("closed by the client, and then without an answer", c.open() + c.request() + c.close())
c = Connection()
case("closed without an answer", c.open() + c.request() + [c.segment(False, flags=FIN | ACK)] + c.close())
c = Connection()
o, q, a = c.open(), c.request(), c.answer()
case("an answer is lost, and then the server resets", o + q + a[-1:] + [c.segment(False, flags=RST)])
c = Connection()
o, q = c.open(), c.request()
far = Packet(("127.0.0.1", 8000), ("127.0.0.1", 40000), 2**30, 0, RST)
case("a reset of another connection", o + q + [far] + c.answer() + c.close())
c = Connection()
case("TLS", c.open() + c.send(True, b"\x16\x03\x01\x00\x20" + bytes(32)) + c.close())
c = Connection()
case("HTTP/2", c.open() + c.send(True, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + c.close())
c = Connection()
case("something else, beside", c.open() + c.send(True, b"\0\1\2\3hello") + c.close() + whole(Connection(port=40001)))

TLS = [b"\x17\x03\x03\x00\x20" + bytes(range(32))] * 2
HTTP2 = [b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x05" + b"\0\0\x30\x01\x04\0\0\0\x07" + b"\x82" * 30, b"\0\x40\0\0\0\0\0\0\x07" + b"x" * 500]
for name, (asks, answers) in (("TLS", TLS), ("HTTP/2", HTTP2)):
    for server in ((), ("--server", "127.0.0.1:8000")):
        c = Connection()
        c.open()
        midway = c.send(True, asks) + c.send(False, answers) + c.send(True, asks)
        case(f"{name}, began before the capture{', with --server' if server else ''}", midway, *server)
    case(f"{name}, only answers are seen, and plain beside it", midway[2:4] + whole(Connection(port=40001)))
    case(f"{name} beside requests that generate nothing", midway + (lambda d: d.open() + d.request(path="/health", method="GET") + d.answer()
                                                                     + d.close())(Connection(port=40001)))
case("--only-path that no request has", whole(Connection()), "--only-path", "/mine")
c = Connection()
asked = request(head=b"X-Api-Key: longkey\r\n")
o, q = c.open(), [c.segment(True, asked[:100], PSH | ACK), c.segment(True, asked[100:130], PSH | ACK), c.segment(True, asked[130:], PSH | ACK)]
case("all requests without a part of their headers", o + q[:1] + q[2:] + c.answer() + c.close())
c = Connection(server=("127.0.0.1", 9000))
case("other servers, and this one without requests", whole(c) + Connection(port=40002).open(), "--server", "127.0.0.1:8000")

print("-- messages")
for how in ({"chunked": True}, {"until_close": True}, {"status": b"500 no"}):
    c = Connection()
    case(f"{how}", c.open() + c.request() + c.answer(**how) + [c.segment(False, flags=FIN | ACK)] + c.close())
c = Connection()
case("100 Continue", c.open() + c.request() + c.send(False, b"HTTP/1.1 100 Continue\r\n\r\n") + c.answer() + c.close())
c = Connection()
asked = request(head=b"Expect: 100-continue\r\n")
at = asked.index(b"\r\n\r\n") + 4
case("100 Continue, and then the body", c.open() + c.send(True, asked[:at]) + c.send(False, b"HTTP/1.1 100 Continue\r\n\r\n")
     + c.send(True, asked[at:]) + c.answer() + c.request("two") + c.answer("second") + c.close())
c = Connection()
case("answered before the request is complete", c.open() + c.send(True, request()[:-8]) + c.answer(status=b"413 too large")
     + c.close())
c = Connection()
packets = c.open() + c.send(True, request(stream=True)) + c.send(False, STREAM_HEAD)
start = 1_700_000_000_000_000_000
for i, p in enumerate(packets):
    p.time_ns = start + i
for i, part in enumerate((event("a "), event("b "), event("c", "stop") + STREAM_END)):
    for p in c.send(False, part):
        p.time_ns = start + (180 + i) * 10**9
        packets.append(p)
case("a stream, silent for three minutes", packets, form="nanoseconds", more=["t_sent_ns", "events"])
c = Connection()
case("a request that generates nothing, and one that does", c.open() + c.send(True, request(path="/health", method="GET"))
     + c.answer() + c.request("kept") + c.answer() + c.close())
c = Connection()
case("HEAD, whose answer has no body", c.open() + c.send(True, b"HEAD / HTTP/1.1\r\n\r\n")
     + c.send(False, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n") + c.request("kept") + c.answer() + c.close())
c = Connection()
packets = c.open() + c.request(path="/mine") + c.answer() + c.request("other") + c.answer() + c.close()
case("--only-path", packets, "--only-path", "/mine", more=["path"])
c = Connection()
packets = c.open() + sum((c.request(str(i)) + c.answer() for i in range(4)), []) + c.close()
case("--max-exchanges 2", packets, "--max-exchanges", "2")

print("-- --sample")


def sampled(ports, share, *options):
    """The ports of which exchanges are kept."""
    packets = []
    for port in ports:
        c = Connection(port=port)
        packets += c.open() + c.request(f"{port} a") + c.answer() + c.request(f"{port} b") + c.answer() + c.close()
    write("x.pcap", packets)
    shutil.rmtree("fx", ignore_errors=True)
    r = subprocess.run([RECORD, "--pcap", "x.pcap", "-o", "fx", "--sample", share, *options], capture_output=True, text=True)
    if r.returncode:
        print(f"{share}: exit {r.returncode},", r.stderr.strip())
        return []
    kept = sorted(x["request"]["prompt"] for x in lines_of("fx/exchanges.jsonl.zst"))
    ports = [p for p in ports if f"{p} a" in kept]
    print(f"{share} of {len(packets) // 14} connections: {len(ports)};", "both requests of each" if len(kept) == 2 * len(ports) else kept,
          *(line.strip() for line in r.stdout.splitlines() if "sample" in line))
    return ports


a, b, c = sampled(range(20000, 21000), "10%"), sampled(range(20999, 19999, -1), "10%"), sampled(range(20000, 21000), "20%")
print("again the same ones:", a == sorted(b) and "yes", "and 20% has them too:", set(a) < set(c) and "yes")
sampled(range(20000, 20010), "100%")
sampled(range(20000, 20003), "0.01%")
for share in ("0%", "101%", "10", "-1%", "x", "1e1%", "%"):
    sampled([1], share)

print("-- messages, again")
c = Connection()
packets = c.open() + sum((c.request(p) + c.answer() for p in "aab"), []) + c.close()
case("equal requests are one prompt", packets, more=["prompt_id", "repeat"])
case("equal after redaction", packets, "--redact", "prompt", more=["prompt_id", "repeat"])
c = Connection()
packets = c.open() + sum((c.request("a", cache_salt=p) + c.answer() for p in "xy"), []) + c.close()
case("with other salts", packets, more=["prompt_id", "repeat"])

print("-- files that are none")
open("x.pcap", "wb").write(b"hello, world, this is no capture")
show("no capture")
open("x.pcap", "wb").close()
show("empty")
show("not there", file="gone.pcap")
write("x.pcap", whole(Connection()))
whole_file = open("x.pcap", "rb").read()
open("x.pcap", "wb").write(whole_file[:-20])
show("ends in mid-packet")
write("x.pcap", whole(Connection()), link=147)
show("unknown link layer")

print("-- what a capture lost says nothing about the server")
GOOD, LOSSY, CUT = [], [], []
for i in range(3):
    c, d, e = (Connection(port=40001 + i) for _ in range(3))
    GOOD += c.open() + c.request(str(i)) + c.answer("world" * 20, size=60) + c.close()
    a = d.open() + d.request(str(i)) + d.answer("world" * 20, size=60) + d.close()
    LOSSY += a[:-6] + a[-5:] if i == 1 else a
    CUT += e.open() + e.request(str(i)) + (e.send(False, answer("world" * 20)[:150]) + [e.segment(False, flags=FIN | ACK)]
                                           if i == 1 else e.answer("world" * 20) + e.close())
for name, packets in (("good", GOOD), ("good2", GOOD), ("lossy", LOSSY), ("broke-off", CUT)):
    write("x.pcap", packets)
    shutil.rmtree(name, ignore_errors=True)
    subprocess.run([RECORD, "--pcap", "x.pcap", "-o", name, "-q"], check=True, stdout=subprocess.DEVNULL)
for a, b in (("good", "good2"), ("good", "lossy"), ("lossy", "good"), ("good", "broke-off")):
    r = subprocess.run([os.environ["BIN"] + "/differ", a, b, "--lanes", "tokens,collapse"], capture_output=True)
    print(f"differ {a} {b}: exit {r.returncode}, " + (r.stdout.decode().strip().splitlines() or r.stderr.decode().splitlines())[-1])
