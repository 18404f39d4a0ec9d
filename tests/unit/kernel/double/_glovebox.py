# SPDX-License-Identifier: Apache-2.0
"""Test double of the C extension `_glovebox`: same calls, no walls.

zygote_serve() takes orders over its socket: one message with three
descriptors (frames, stdout, stderr) forks a kernel; the parent answers with
its pid and goes on, and reaps on an empty message. Nothing is isolated.
"""
import array
import json
import os
import select
import signal
import socket
import struct

# As the driver does: the extension would not notice damaged builtins either.
__builtins__ = dict(__builtins__)

_HEAD = struct.Struct("=II")
_state = {"sock": None, "rest": b""}
SYNCED, SYNC = 2, 21
SYNC_SECONDS = 0.1


def _take_order(sock):
    data, ancillary, _, _ = sock.recvmsg(4096, socket.CMSG_SPACE(3 * 4))
    fds = array.array("i")
    for _, _, payload in ancillary:
        fds.frombytes(payload[:len(payload) - len(payload) % 4])
    return data, list(fds)


def zygote_serve(sock_fd):
    sock = socket.socket(fileno=sock_fd)
    sock.send(b"ready")
    while True:
        data, fds = _take_order(sock)
        if not data:
            os._exit(0)
        order = json.loads(data)
        if "reap" in order:
            _, status = os.waitpid(order["reap"], 0)
            sock.send(str(status).encode())
            continue
        pid = os.fork()
        if pid == 0:
            sock.close()
            os.setpgid(0, 0)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            null = os.open("/dev/null", os.O_RDONLY)
            for fd, target in ((null, 0), (fds[1], 1), (fds[2], 2)):
                os.dup2(fd, target, inheritable=True)
                os.close(fd)
            _state["sock"] = socket.socket(fileno=fds[0])
            os.chdir(order.get("cwd", "/tmp"))
            return {"cores": order.get("cores", 1), "memory_bytes": 1 << 30,
                    "home": "/home/user"}
        for fd in fds:
            os.close(fd)
        sock.send(str(pid).encode())


def _read(size, deadline=None):
    sock, data = _state["sock"], _state["rest"]
    while len(data) < size:
        if deadline is not None:
            if not select.select([sock], [], [], deadline)[0]:
                _state["rest"] = data
                return None
        chunk = sock.recv(1 << 16)
        if not chunk:
            raise EOFError("the daemon is gone")
        data += chunk
    _state["rest"] = data[size:]
    return data[:size]


def recv():
    kind, size = _HEAD.unpack(_read(_HEAD.size))
    return kind, _read(size)


def send(kind, payload):
    _state["sock"].sendall(_HEAD.pack(kind, len(payload)) + payload)


def sync():
    send(SYNC, b"")
    head = _read(_HEAD.size, SYNC_SECONDS)
    assert head is None or _HEAD.unpack(head) == (SYNCED, 0), head


def reads():
    """The real one watches the interpreter; here nothing was read."""


def run_begin():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def run_end():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])


def immortalize(objects):
    """The real one changes counts; a double must not touch memory."""
    del objects
    return []
