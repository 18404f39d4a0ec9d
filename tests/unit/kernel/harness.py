# SPDX-License-Identifier: Apache-2.0
"""A zygote with the test double of the extension, and a tiny daemon for it.

Zygote(root) runs the driver either on the host's python3 (root None, which
has no IPython) or inside a runtime image; the image is left untouched, all
mounts live in a mount namespace of the process. Session.execute() plays the
daemon's part: reads frames and pipes, keeps their order, answers SYNC.
"""
import array
import glob
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True  # the tree stays as it was
HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER = os.path.abspath(os.path.join(HERE, "../../../src/kernel/driver"))
CACHE = "/var/cache/glovebox/runtimes"
HEAD = struct.Struct("=II")
EXECUTE, SYNCED = 1, 2
KINDS = {16: "ready", 17: "display", 18: "result", 19: "error", 20: "done",
         21: "sync", 22: "clear"}
START_SECONDS = 120

# Runs as: sh -c ENTER sh ROOT DRIVER DOUBLE SOCKET SPEC. Only this process
# sees the mounts.
ENTER = """
set -e
mount --make-rprivate /
mount -t tmpfs none "$1/opt"
mkdir -p "$1/opt/glovebox/lib"
cp "$2"/*.py "$3"/*.py "$1/opt/glovebox/lib"
mount -t tmpfs none "$1/mnt"
mkdir -p "$1/mnt/data"
mount -t tmpfs none "$1/tmp"
mount -t tmpfs none "$1/home"
mkdir -p "$1/home/user"
mount --rbind /proc "$1/proc"
mount --rbind /dev "$1/dev"
exec chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/home/user \
    LANG=C.UTF-8 /usr/bin/python3 /opt/glovebox/lib/glovebox_zygote.py "$4" "$5"
"""


def find_image(name):
    """Root of the newest built runtime image of a name, or None."""
    found = glob.glob("%s/%s-*/manifest.json" % (CACHE, name))
    newest = max(found, key=os.path.getmtime, default=None)
    return newest and os.path.join(os.path.dirname(newest), "root")


def preloads(name):
    """The modules a runtime's definition wants imported."""
    path = os.path.join(HERE, "../../../runtimes", name, "runtime.yaml")
    names, inside = [], False
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith((" ", "#")) and line.strip():
                inside = line.strip() == "preload:"
            elif inside and line.strip().startswith("- "):
                names.append(line.strip()[2:])
    return names


def need_image(name):
    """Root of an image; skips the test without one or without root."""
    root = find_image(name)
    if root is None:
        raise unittest.SkipTest("runtime image %s is not built" % name)
    if os.geteuid() != 0:
        raise unittest.SkipTest("entering an image needs root")
    return root


class Zygote:
    """One zygote process; start() forks a session off it."""

    def __init__(self, root=None, preload=(), environment=None):
        self.sock, theirs = socket.socketpair(socket.AF_UNIX,
                                              socket.SOCK_SEQPACKET)
        spec_read, spec_write = os.pipe()
        os.write(spec_write, json.dumps({
            "preload": list(preload), "environment": environment or {},
        }).encode())
        os.close(spec_write)
        fds = (theirs.fileno(), spec_read)
        numbers = [str(fd) for fd in fds]
        if root is None:
            self.lib = self._host_folder()
            command = ["/usr/bin/python3",
                       os.path.join(self.lib, "glovebox_zygote.py"), *numbers]
        else:
            command = ["unshare", "-m", "sh", "-c", ENTER, "sh", root, DRIVER,
                       os.path.join(HERE, "double"), *numbers]
        self.process = subprocess.Popen(
            command, pass_fds=fds, stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/home/user",
                 "LANG": "C.UTF-8"})
        theirs.close()
        os.close(spec_read)
        self.sock.settimeout(START_SECONDS)
        if self.sock.recv(64) != b"ready":
            raise RuntimeError("the zygote did not start: %s"
                               % self.process.communicate()[1].decode())

    @staticmethod
    def _host_folder():
        import shutil
        import tempfile
        folder = tempfile.mkdtemp(prefix="glovebox-driver-")
        for path in glob.glob(DRIVER + "/*.py") + glob.glob(
                HERE + "/double/*.py"):
            shutil.copy(path, folder)
        return folder

    def start(self, **order):
        return Session(self, order)

    def spawn(self, order, fds):
        self.sock.sendmsg([json.dumps(dict(order)).encode()],
                          [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                            array.array("i", fds))])
        return int(self.sock.recv(64))

    def reap(self, pid):
        self.sock.send(json.dumps({"reap": pid}).encode())
        return int(self.sock.recv(64))

    def close(self):
        self.sock.close()
        self.process.wait(10)
        self.process.stderr.close()
        if getattr(self, "lib", None):
            import shutil
            shutil.rmtree(self.lib)


class Result:
    """What one execution gave. events holds (kind, value) in order."""

    def __init__(self):
        self.events = []
        self.error = self.status = self.result = None
        self.ended = False
        self.seconds = 0.0

    def add_text(self, stream, text):
        """Pieces of one stream with nothing between them are one event."""
        if self.events and self.events[-1][0] == stream:
            text = self.events.pop()[1] + text
        self.events.append((stream, text))

    def text(self, stream):
        return "".join(v for k, v in self.events if k == stream)

    stdout = property(lambda self: self.text("stdout"))
    stderr = property(lambda self: self.text("stderr"))
    displays = property(
        lambda self: [v for k, v in self.events if k == "display"])
    traceback = property(
        lambda self: "\n".join(self.error["traceback"]) if self.error else "")


def unpack_pairs(payload):
    at, pairs = 0, []
    while at < len(payload):
        key, value = HEAD.unpack_from(payload, at)
        at += HEAD.size
        pairs.append((payload[at:at + key].decode(),
                      payload[at + key:at + key + value]))
        at += key + value
    assert at == len(payload)
    return pairs


class Session:
    """One kernel and the daemon's ends of its channels."""

    def __init__(self, zygote, order):
        self.zygote = zygote
        self.sock, frames = socket.socketpair()
        self.pipes = {}
        write_ends = []
        for name in ("stdout", "stderr"):
            read, write = os.pipe()
            os.set_blocking(read, False)
            self.pipes[name] = read
            write_ends.append(write)
        self.pid = zygote.spawn(order, [frames.fileno(), *write_ends])
        frames.close()
        for fd in write_ends:
            os.close(fd)
        self.rest = b""
        self.select = selectors.DefaultSelector()
        self.select.register(self.sock, selectors.EVENT_READ, "frames")
        for name, fd in self.pipes.items():
            self.select.register(fd, selectors.EVENT_READ, name)
        ready = Result()
        self.pump(ready, time.monotonic() + 30, "ready")
        self.before_ready = ready

    def drain(self, result, names=("stdout", "stderr")):
        for name in names:
            while True:
                try:
                    data = os.read(self.pipes[name], 1 << 16)
                except BlockingIOError:
                    break
                if not data:
                    if self.pipes[name] in self.select.get_map():
                        self.select.unregister(self.pipes[name])
                    break
                result.add_text(name, data.decode("utf-8", "replace"))

    def frames(self, result):
        """Reads the frames that are there; yields (kind, payload)."""
        try:
            data = self.sock.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            result.ended = True
        self.rest += data
        while len(self.rest) >= HEAD.size:
            kind, size = HEAD.unpack_from(self.rest)
            if len(self.rest) < HEAD.size + size:
                break
            payload = self.rest[HEAD.size:HEAD.size + size]
            self.rest = self.rest[HEAD.size + size:]
            yield KINDS[kind], payload

    def take(self, result, kind, payload):
        self.drain(result)
        if kind == "sync":
            self.sock.sendall(HEAD.pack(SYNCED, 0))
        elif kind == "done":
            result.status, _ = struct.unpack("=II", payload)
        elif kind == "error":
            pairs = unpack_pairs(payload)
            result.error = {k: v.decode() for k, v in pairs}
            result.error["traceback"] = [v.decode() for k, v in pairs
                                         if k == "traceback"]
        elif kind == "result":
            result.result = dict(unpack_pairs(payload))
            result.events.append(("result", result.result))
        elif kind == "display":
            result.events.append((kind, dict(unpack_pairs(payload))))
        else:
            result.events.append((kind, payload))

    def pump(self, result, deadline, until, on_event=None):
        while not result.ended:
            left = deadline - time.monotonic()
            assert left > 0, "no %s in time: %r" % (until, result.events[-5:])
            ready = {key.data for key, _ in self.select.select(left)}
            if "frames" in ready:
                # Displays were sent before what was printed after them.
                for kind, payload in self.frames(result):
                    self.take(result, kind, payload)
                    if kind == until:
                        return
            else:
                self.drain(result, sorted(ready))
            if on_event is not None:
                on_event(result)
        self.drain(result)

    def execute(self, code, timeout=30, on_event=None):
        result = Result()
        data = code.encode("utf-8", "surrogatepass")
        began = time.monotonic()
        self.sock.sendall(HEAD.pack(EXECUTE, len(data)) + data)
        self.pump(result, began + timeout, "done", on_event)
        result.seconds = time.monotonic() - began
        return result

    def interrupt(self):
        os.killpg(self.pid, signal.SIGINT)

    def late_output(self, seconds=1.0):
        """What arrives with no cell running."""
        result = Result()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.drain(result)
            time.sleep(0.02)
        return result

    def close(self):
        self.sock.close()
        for fd in self.pipes.values():
            os.close(fd)
        self.select.close()
        return self.zygote.reap(self.pid)


class SessionCase(unittest.TestCase):
    """Each case gets a session of its class's zygote."""

    image = None
    zygote = None

    @classmethod
    def setUpClass(cls):
        if cls.image is None:
            cls.zygote = Zygote()
        else:
            cls.zygote = Zygote(need_image(cls.image), preloads(cls.image))

    @classmethod
    def tearDownClass(cls):
        if cls.zygote is not None:
            cls.zygote.close()

    def setUp(self):
        self.session = self.zygote.start()
        self.closed = False

    def tearDown(self):
        self.end()

    def end(self):
        """Closes the session; returns its wait status."""
        if not self.closed:
            self.closed = True
            return self.session.close()
        return None

    def run_cell(self, code, status=0, **kwargs):
        result = self.session.execute(code, **kwargs)
        self.assertEqual(result.status, status, result.traceback
                         or result.events)
        return result

    def value(self, code):
        """text/plain of the cell's value."""
        return self.run_cell(code).result["text/plain"].decode()

    def interrupted(self, code, seconds=0.3):
        """Runs a cell and interrupts it; it must end by that, soon."""
        timer = threading.Timer(seconds, self.session.interrupt)
        timer.start()
        result = self.session.execute(code, timeout=10)
        timer.join()
        self.assertEqual(result.status, 1, result.events)
        self.assertEqual(result.error["name"], "KeyboardInterrupt")
        return result


class TapResult(unittest.TestResult):
    """Prints one TAP line for each case."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def point(self, verdict, test, note=""):
        self.count += 1
        print("%s %d - %s%s" % (verdict, self.count, test.id().split(".")[-1],
                                note), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.point("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.point("ok", test, " # SKIP " + reason)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.fail_with(subtest, error)

    def fail_with(self, test, error):
        self.point("not ok", test)
        for line in self._exc_info_to_string(error, test).splitlines():
            print("# " + line)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.fail_with(test, error)

    def addError(self, test, error):
        super().addError(test, error)
        self.fail_with(test, error)


def main():
    """For the end of each test file: run its cases, print TAP."""
    loader = unittest.TestLoader()
    module = sys.modules["__main__"]
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names, module) if names \
        else loader.loadTestsFromModule(module)
    result = TapResult()
    suite.run(result)
    print("1..%d" % result.count)
    sys.exit(not result.wasSuccessful())
