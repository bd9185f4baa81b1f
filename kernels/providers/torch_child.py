#!/usr/bin/env python3
"""torch_child.py - the program of provider torch: it runs vLLM's kernels for `replay`, in the Python of the user's venv.
SPDX-License-Identifier: Apache-2.0

`replay` starts PYTHON torch_child.py --child FD and speaks the protocol of replayer/child_protocol.h with it. This
program does for vLLM what replayer/child/child_serve.c does for libraries, by the same rules: every tensor that the
build touches lies in a guarded copy, outputs are poisoned before each run, and the shared arena is only
read from and written to between runs. torch_cpu_ops.py and torch_gpu_ops.py decide how vLLM
runs an op.

There are two processes, because loading torch takes seconds and a timed op starts its builds anew eight
times. A keeper loads the build once. Each start or restart is a worker: a fork of the keeper in which
nothing was computed yet, with the heap moved by a random distance. On a GPU the worker stays, since to start CUDA
takes seconds too, and moves what it allocates there. When a worker ends, the keeper ends in
the same way (by the same signal), so that the parent sees how."""
import array
import ctypes
import errno
import mmap
import os
import random
import resource
import signal
import socket
import sys
import threading

from torch_build import LoadError, Unsupported, open_build

MAGIC, VERSION = 0x4F525054, 9
MAX_REPEATS, ARENA_MAX = 64, 1 << 36
HELLO, ARENA, RUN, PREPARE, TIME, RELEASE, RESTART, BYE = range(1, 9)
OK, UNSUPPORTED, FAILED, NO_MEMORY = range(4)
GUARD, COLD, LAST, VARIES, ON_GPU = 1, 2, 4, 8, 16
STAGE_IDLE, STAGE_LOAD, STAGE_PREPARE, STAGE_RUN, STAGE_FETCH, STAGE_RELEASE = range(6)
TD_EINVAL, TD_EXIT_OK, TD_EXIT_USAGE, TD_EXIT_BROKEN = -3, 0, 2, 4
COMPILE_S = 300                          # as COMPILE_MS of replayer/build_pair.c
RESTART_EXIT = 75                        # a worker exits so to ask its keeper for another

# ---- the structs of replayer/child_protocol.h; e2e case 046 compares them with the C compiler's ---------------------------------

MAX_TENSORS, MAX_DIMS, MAX_ATTRS, MAX_LAUNCHES = 18, 8, 32, 64      # common/desc/op_desc.h
u32, i32, u64, i64 = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64


def text(n):
    return ctypes.c_char * n


class Msg(ctypes.Structure):
    _fields_ = [("magic", u32), ("version", u32), ("type", u32), ("seq", u32), ("status", i32), ("flags", u32),
                ("repeats", u32), ("iterations", u32), ("size", u64), ("ns", i64), ("provider", text(32)),
                ("rounding", text(32)), ("text", text(3992))]


class ArenaTensor(ctypes.Structure):
    _fields_ = [("role", text(24)), ("dtype", text(16)), ("ndim", i64), ("shape", i64 * MAX_DIMS),
                ("strides", i64 * MAX_DIMS), ("offset", u64), ("size_bytes", u64), ("align", u64),
                ("content", u64 * 2)]


class ArenaAttr(ctypes.Structure):
    _fields_ = [("name", text(24)), ("value", i64)]


class ArenaLaunch(ctypes.Structure):
    _fields_ = [("rows", i64 * 2), ("grid", u32 * 3), ("block", u32 * 3), ("shared_bytes", u32), ("flags", u32),
                ("symbol", text(512))]


class ArenaHead(ctypes.Structure):
    _fields_ = [("magic", u32), ("version", u32), ("stage", u32), ("repeat", u32), ("progress", u64),
                ("reached", u32), ("reserved", u32), ("fault", text(256)), ("kind", text(32)), ("act_rounding", text(32)), ("n_attrs", i64), ("n_in", i64),
                ("attrs", ArenaAttr * MAX_ATTRS), ("inputs", ArenaTensor * MAX_TENSORS), ("out", ArenaTensor),
                ("symbol", text(512)), ("layout", text(32)), ("n_launches", i64),
                ("launches", ArenaLaunch * MAX_LAUNCHES)]


class Refused(Exception):
    """The op breaks a rule of the protocol or of its memory; the reply is FAILED with this sentence."""


# ---- an op in memory ---------------------------------------------------------------------------------------------------

class Tensor:
    """A tensor. data: its address. shape and strides: in elements, as recorded."""

    def __init__(self, t, data):
        if not 0 <= t.ndim <= MAX_DIMS:
            raise Refused(f"a tensor of {t.ndim} dimensions")
        self.role, self.dtype = t.role.decode(), t.dtype.decode()
        self.shape, self.strides = list(t.shape)[:t.ndim], list(t.strides)[:t.ndim]
        self.size, self.align, self.data = t.size_bytes, t.align, data
        self.content = tuple(t.content)

    def at(self, data):
        other = object.__new__(Tensor)
        other.__dict__.update(self.__dict__, data=data)
        return other


class Op:
    """act_rounding, symbol, layout: of the kernel that was recorded."""

    def __init__(self, head, inputs, out):
        self.kind, self.act_rounding = head.kind.decode(), head.act_rounding.decode()
        self.symbol, self.layout = head.symbol.decode(), head.layout.decode()
        self.attrs = {a.name.decode(): a.value for a in head.attrs[:head.n_attrs]}
        self.inputs, self.out = inputs, out

    def at(self, inputs, out):
        other = object.__new__(Op)
        other.__dict__.update(self.__dict__, inputs=inputs, out=out)
        return other

    def get(self, role):
        return next((t for t in self.inputs if t.role == role), None)


def image_stride(size):
    return (size + 63) & ~63


def tensor_in(t, base, size, images):
    need = image_stride(t.size_bytes) * images if images > 1 else t.size_bytes
    if t.offset > size or t.size_bytes > size or need > size - t.offset:
        raise Refused("a tensor lies outside of the arena")
    return Tensor(t, base + t.offset)


def unpack(head, base, size, images):
    """Read the op from the arena; its tensors stay where they lie there."""
    if head.magic != MAGIC or head.version != VERSION:
        raise Refused(f"the arena does not begin as version {VERSION} of the child protocol does")
    if not 0 <= head.n_attrs <= MAX_ATTRS or not 0 <= head.n_in <= MAX_TENSORS:
        raise Refused(f"an op with {head.n_attrs} attributes and {head.n_in} inputs")
    return Op(head, [tensor_in(t, base, size, 1) for t in head.inputs[:head.n_in]], tensor_in(head.out, base, size, images))


# ---- guarded memory, as replayer/child/guard.c -------------------------------------------------------------------------------

PAGE = mmap.PAGESIZE
GAP_BYTE, FRONT = b"\xa7", 256
PROT_NONE, PROT_RW, MAP_SHARED, MAP_PRIVATE, MAP_ANON, MAP_NORESERVE = 0, 3, 1, 2, 0x20, 0x4000
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
MAP_FAILED = ctypes.c_void_p(-1).value


def map_memory(size, prot, flags, fd=-1):
    at = libc.mmap(None, size, prot, flags, fd, 0)
    if at in (None, MAP_FAILED):
        raise MemoryError(f"cannot map {size} bytes: {os.strerror(ctypes.get_errno())}")
    return at


class Guard:
    """Memory for one tensor between two pages whose access is a fault. Gaps around the tensor are filled, so
    that writes which do not reach a page show too."""

    def __init__(self):
        self.map = self.map_bytes = self.data = self.size = 0
        self.content = None                  # what the tensor holds; None since it was placed elsewhere

    def room(self, room):
        inner = (room + PAGE - 1) // PAGE * PAGE
        if self.map and self.map_bytes >= inner + 2 * PAGE:
            return
        self.release()
        inner += inner // 4 // PAGE * PAGE
        self.map = map_memory(inner + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE)
        self.map_bytes = inner + 2 * PAGE
        if libc.mprotect(self.map + PAGE, inner, PROT_RW):
            raise MemoryError(f"cannot open {inner} bytes for a tensor: {os.strerror(ctypes.get_errno())}")

    def release(self):
        if self.map:
            libc.munmap(self.map, self.map_bytes)
        self.map = self.map_bytes = self.data = 0

    def place(self, role, size, align, at_end):
        align = align or 64
        if align > PAGE or align & (align - 1):
            raise Refused(f"{role}: an alignment of {align} is no power of two up to {PAGE}")
        self.room(size + align + 2 * PAGE)
        end, before = self.map + self.map_bytes - PAGE, (self.data, self.size)
        self.data = (end - size) & ~(align - 1) if at_end else self.map + 2 * PAGE
        self.role, self.size = role, size
        if (self.data, size) != before:
            self.content = None
        self.tail = end - self.data - size if at_end else min(end - self.data - size, FRONT)
        ctypes.memset(self.data - FRONT, GAP_BYTE[0], FRONT)
        ctypes.memset(self.data + size, GAP_BYTE[0], self.tail)
        return self.data

    def check(self):
        tail = ctypes.string_at(self.data + self.size, self.tail).rstrip(GAP_BYTE)
        if tail:
            return f"wrote past the end of {self.role} (byte {len(tail) - 1} after it)"
        front = ctypes.string_at(self.data - FRONT, FRONT).lstrip(GAP_BYTE)
        return f"wrote before the start of {self.role} ({len(front)} bytes before it)" if front else None


# ---- poison, as replayer/poison.c --------------------------------------------------------------------------------------

PATTERNS = {"F16": (0x7E00, 0x9155, 2), "BF16": (0x7FC0, 0xBA2B, 2), "F32": (0x7FC00000, 0xBA2AA000, 4),
            "F64": (0x7FF8000000000000, 0xBF45540000000000, 8)}


def pattern_of(dtype, repeat):
    """The bytes of one element."""
    even, odd, width = PATTERNS.get(dtype, (0xA5, 0x5A, 1))
    return (odd if repeat & 1 else even).to_bytes(width, "little")


def poison(t, pattern):
    ctypes.memmove(t.data, pattern * (t.size // len(pattern)) + b"\xa5" * (t.size % len(pattern)), t.size)


class Patience:
    """Around the first run of a kernel that the driver may have to compile: the parent, whose deadline is one of
    progress, sees some for COMPILE_S seconds. A kernel that hangs does so after its launch, where nothing waits."""

    def __init__(self, head, build, plan):
        self.head, self.over = head, None
        if plan.compiles and plan.compiles not in build.compiled:
            build.compiled.add(plan.compiles)
            self.over = threading.Event()

    def tick(self):
        for _ in range(COMPILE_S):
            if self.over.wait(1):
                return
            self.head.progress += 1

    def __enter__(self):
        if self.over:
            self.thread = threading.Thread(target=self.tick, daemon=True)
            self.thread.start()

    def __exit__(self, *error):
        if self.over:
            self.over.set()
            self.thread.join()


# A machine that is out of these says nothing about a kernel. C++ puts the same words into its RuntimeError.
SHORTAGES = [os.strerror(e) for e in (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOSPC)]
SHORTAGES += ["bad_alloc", "can't start new thread", "can't allocate lock"]


def is_shortage(e):
    return isinstance(e, MemoryError) or type(e).__name__ == "OutOfMemoryError" or any(s in str(e) for s in SHORTAGES)


# ---- the worker --------------------------------------------------------------------------------------------------------

class Worker:
    """build: a torch_build.Build, or the LoadError that says why there is none."""

    def __init__(self, sock, build):
        self.sock, self.build = sock, build
        self.hello = self.spent = self.clean = False  # clean: the guards hold the last op as it came
        self.head, self.base, self.size = None, 0, 0
        self.guards = [Guard() for _ in range(MAX_TENSORS + 1)]
        self.op = self.source = self.plan = self.sweep = None

    def stage(self, stage, repeat=0):
        self.head.repeat, self.head.stage = repeat, stage
        self.head.reached = max(self.head.reached, stage)
        self.head.progress += 1

    def held(self):
        return sum(g.map_bytes for g in self.guards)

    def make_room(self, most):
        """Make room for the copies of the op within the bytes that this process may hold itself, without the build's."""
        need = sum(t.size + t.size // 4 + 5 * PAGE for t in self.source.inputs + [self.source.out] * 2)  # poison() makes a copy
        if need > most:
            raise MemoryError(f"its tensors need {need} bytes in the process of the build, which may take {most}; "
                              "--max-memory SIZE allows more")
        for g in self.guards:
            if self.held() + need > most:
                g.release()

    def load(self, images, guard, most):
        if not self.head:
            raise Refused("no arena was sent yet")
        self.stage(STAGE_LOAD)
        s = self.source = unpack(self.head, self.base, self.size, images)
        self.make_room(most)
        inputs, clean, self.clean = [], self.clean, False
        for g, t in zip(self.guards, s.inputs):
            inputs.append(t.at(g.place(t.role, t.size, t.align, guard)))
            if not (clean and any(t.content) and g.content == t.content):
                ctypes.memmove(inputs[-1].data, t.data, t.size)
            g.content = t.content
        out = s.out.at(self.guards[MAX_TENSORS].place(s.out.role, s.out.size, s.out.align, guard))
        self.op = s.at(inputs, out)

    def prepare(self):
        plan = self.build.plan(self.op)
        self.stage(STAGE_PREPARE)
        plan.prepare()
        return plan

    def trespass(self):
        """A sentence about what the build wrote besides its output, or None."""
        for t, s, g in zip(self.op.inputs, self.source.inputs, self.guards):
            if libc.memcmp(t.data, s.data, t.size):
                return f"wrote into its input {t.role}"
            if g.check():
                return g.check()
        return self.guards[MAX_TENSORS].check()

    def run_once(self, plan, repeat, m):
        out, pattern = self.op.out, pattern_of(self.op.out.dtype, repeat)
        poison(out, pattern)
        plan.poison(pattern)
        self.stage(STAGE_RUN, repeat)
        with Patience(self.head, self.build, plan):
            plan.run()
        self.stage(STAGE_FETCH, repeat)
        found = plan.fetch()
        ctypes.memmove(self.source.out.data + image_stride(out.size) * repeat, out.data, out.size)
        found = found or self.trespass()
        if found:
            answer(m, FAILED, found)

    def serve_run(self, m):
        want, m.repeats, m.rounding = m.repeats, 0, b""
        if want > MAX_REPEATS:
            raise Refused("too many repeats")
        self.load(want, m.flags & GUARD, m.size)
        follow_cpus(self.build)
        plan = self.prepare()
        m.rounding, m.iterations = plan.rounding.encode(), plan.half_sums
        self.nature = VARIES if plan.varies else 0
        try:
            while m.repeats < want:
                self.run_once(plan, m.repeats, m)
                m.repeats += 1
        finally:
            self.stage(STAGE_RELEASE)
        self.clean = m.status == OK          # its inputs are as they were

    def serve_prepare(self, m):
        self.plan = None
        self.load(1, m.flags & GUARD, m.size)
        follow_cpus(self.build)
        self.plan = self.prepare()

    def serve_time(self, m):
        iterations, m.ns = m.iterations, 0
        if not self.plan:
            raise Refused("TIME without PREPARE")
        self.stage(STAGE_RUN)
        m.ns = self.plan.time(iterations, self.make_cold if m.flags & COLD else None)

    def make_cold(self):
        """Push the op out of the caches by reading a large buffer. Its packed weights lie in memory that only the
        build knows, so they cannot be flushed by address."""
        if not self.sweep:
            self.sweep = Sweep()
        self.sweep.read()
        self.head.progress += 1

    def serve_hello(self, m):
        provider, m.text = m.provider.decode(), b""
        if provider != "torch":
            answer(m, TD_EINVAL, f'no provider "{provider}"; torch_child.py has torch')
        elif isinstance(self.build, Exception):
            answer(m, self.build.code, str(self.build))
        else:
            self.start_build(m)

    def start_build(self, m):
        try:
            answer(m, OK, self.build.start())
            m.flags = ON_GPU if self.build.on_gpu else 0
            self.hello = True
        except LoadError as e:
            answer(m, e.code, str(e))

    def take_arena(self, m, fd):
        self.plan = self.head = None
        if self.base:
            libc.munmap(self.base, self.size)
        self.base = 0
        if fd < 0:
            return
        try:
            if ctypes.sizeof(ArenaHead) <= m.size <= ARENA_MAX:
                self.base, self.size = map_memory(m.size, PROT_RW, MAP_SHARED, fd), m.size
                self.head = ArenaHead.from_address(self.base)
        except MemoryError:
            pass                             # RUN will say that there is no arena
        finally:
            os.close(fd)

    def answer_to(self, m):
        handlers = {RUN: self.serve_run, PREPARE: self.serve_prepare, TIME: self.serve_time, RELEASE: self.serve_release}
        m.status, self.nature = OK, 0
        if m.type == HELLO:
            return self.serve_hello(m)
        try:
            if not self.hello:
                raise Refused("HELLO comes first")
            if m.type not in handlers:
                raise Refused("a message of an unknown type")
            handlers[m.type](m)
        except Unsupported as e:
            answer(m, UNSUPPORTED, str(e))
        except Refused as e:
            answer(m, FAILED, str(e))
        except Exception as e:               # the build's: TORCH_CHECK, out of memory ...
            answer(m, NO_MEMORY if is_shortage(e) else FAILED, f"{type(e).__name__}: {first_line(e)}")
            self.spent = self.build.is_lost(e)
        finally:
            m.size = self.held()
            m.flags = self.nature | (LAST if self.spent else 0)

    def serve_release(self, m):
        self.plan = None

    def serve(self):
        """Answer requests until BYE, RESTART, or the parent is gone. Returns the exit code."""
        while True:
            m, fd = receive(self.sock)
            if m is None:
                return TD_EXIT_BROKEN
            if m.type == ARENA:
                self.take_arena(m, fd)
                continue
            if fd >= 0:
                os.close(fd)
            if m.type == BYE:
                return TD_EXIT_OK
            if m.type == RESTART and not self.build.on_gpu:
                return RESTART_EXIT
            if m.type == RESTART:
                self.plan = None
                self.build.renew()
                continue
            self.answer_to(m)
            if self.head:
                self.stage(STAGE_IDLE)
            try:
                self.sock.send(bytes(m))
            except OSError:
                return TD_EXIT_BROKEN
            if self.spent:
                return TD_EXIT_OK


def answer(m, status, words):
    """Set the reply's status and sentence; the first that is not OK stays."""
    if m.status != OK:
        return
    m.status = status
    m.text = words.encode()[:Msg.text.size - 1].decode(errors="ignore").encode()


def first_line(e):
    return (str(e).strip().splitlines() or ["no words"])[0]


def follow_cpus(build):
    """Take over the keeper's CPUs, to which the parent pins it for timings, and compute on as many threads."""
    cpus = os.sched_getaffinity(os.getppid())
    os.sched_setaffinity(0, cpus)
    build.threads(len(cpus))


def receive(sock):
    """Return (message, descriptor or -1); (None, -1): the parent is gone, or speaks another protocol."""
    try:
        data, control, _, _ = sock.recvmsg(ctypes.sizeof(Msg), socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None, -1
    fd = -1
    for level, kind, value in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS) and len(value) == 4:
            fd = array.array("i", value)[0]
    if len(data) != ctypes.sizeof(Msg):
        return None, -1
    m = Msg.from_buffer_copy(data)
    return (m, fd) if (m.magic, m.version) == (MAGIC, VERSION) else (None, -1)


class Sweep:
    """A buffer larger than the last-level cache, to be read line by line."""

    def __init__(self):
        import numpy

        size = 1 << 26
        try:
            with open("/sys/devices/system/cpu/cpu0/cache/index3/size") as f:
                size = max(size, min(int(f.read().rstrip("K\n")) * 2048, 1 << 28))
        except (OSError, ValueError):
            pass
        self.lines = numpy.ones(size // 8, dtype=numpy.int64)[::8]

    def read(self):
        self.lines.sum()


# ---- the keeper --------------------------------------------------------------------------------------------------------

PR_SET_PDEATHSIG = 1


def prepare_process(parent):
    """Set up the process: no core files, because a crash is a result; ignore Ctrl-C, which the parent handles;
    die with the parent."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(TD_EXIT_BROKEN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def load_build():
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's own threads: no worker should start with others' around
    try:
        return open_build()
    except LoadError as e:
        return e


def run_worker(fd, keeper, build):
    prepare_process(keeper)
    map_memory(PAGE * random.SystemRandom().randrange(1, 1 << 16), PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE)
    return Worker(socket.socket(fileno=fd), build).serve()


def end_as(status):
    """End this process in the way in which another one ended, by its status from waitpid()."""
    if os.WIFSIGNALED(status):
        sig = os.WTERMSIG(status)
        if sig != signal.SIGKILL:
            signal.signal(sig, signal.SIG_DFL)
        os.kill(os.getpid(), sig)
    os._exit(os.WEXITSTATUS(status))


def run_keeper(fd):
    prepare_process(os.getppid())
    build = load_build()
    keeper = os.getpid()
    while True:
        pid = os.fork()
        if pid == 0:
            os._exit(run_worker(fd, keeper, build))
        _, status = os.waitpid(pid, 0)
        if not os.WIFEXITED(status) or os.WEXITSTATUS(status) != RESTART_EXIT:
            end_as(status)


def main(argv):
    if len(argv) == 3 and argv[1] == "--child":
        return run_keeper(int(argv[2]))
    sys.stderr.write("torch_child.py: started by `replay --build PYTHON`, not by hand\n")
    return TD_EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv))
