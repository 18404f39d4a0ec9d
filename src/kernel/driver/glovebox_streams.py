# SPDX-License-Identifier: Apache-2.0
"""The standard streams of a session's kernel.

stdout and stderr go to the pipes on descriptors 1 and 2, unbuffered: what C
code, threads and subprocesses write to the same descriptors keeps its place.
Between the two pipes only the daemon knows an order, the one it reads them
in; so whenever Python turns from one of them (or from a display) to another
it first waits until the daemon has caught up. For stdin see glovebox_input.
"""
import builtins
import io
import os
import select
import sys
import threading

import glovebox_input

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

_PROBE_MS = 1000
_CHILDREN = frozenset(("subprocess.Popen", "os.fork", "os.forkpty",
                       "os.posix_spawn", "os.system"))
SPARE_FD = 32  # out of the way, below the least limit there is (64)


class Order:
    """Who wrote last. Only while a cell runs may a turn wait for the daemon:
    between cells the socket is the main loop's alone."""

    def __init__(self, channel):
        self.channel = channel
        self.last = None
        self.running = False
        self.muted = False
        self.lock = threading.RLock()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self):
        # Another thread of the parent may have held it at the fork.
        self.lock = threading.RLock()

    def begin(self):
        self.last = None
        self.running = True

    def end(self):
        with self.lock:
            self.running = False

    def turn(self, who):
        """who is about to write; all that others wrote comes first."""
        previous, self.last = self.last, who
        if previous is None or not self.running:
            return
        with self.lock:
            if self.running:
                self.channel.sync()

    def displayed(self):
        self.last = self

    def settle(self):
        """Others write to the pipes next, or just did: catch up."""
        self.last = self
        self.turn(None)


class Pipe(io.BufferedIOBase):
    """The bytes of one stream. It cannot be closed: programs that wrap
    sys.stdout.buffer close it by accident when the wrapper dies."""

    mode = "wb"

    def __init__(self, fd, order):
        self._fd = fd
        self._order = order

    def write(self, data):
        order = self._order
        if order.muted:
            return len(data)
        if order.last is not self:
            order.turn(self)
        if type(data) is not bytes:
            data = bytes(data)
        size = len(data)
        done = 0
        while done < size:
            try:
                done += os.write(self._fd, data[done:] if done else data)
            except BlockingIOError:
                # Somebody made the pipe non-blocking; we still wait.
                poll = select.poll()
                poll.register(self._fd, select.POLLOUT)
                poll.poll(_PROBE_MS)
        return size

    def writable(self):
        return True

    def fileno(self):
        return self._fd

    def isatty(self):
        return False

    def close(self):
        pass


class Text(io.TextIOWrapper):
    """The text of one stream. Neither closed nor taken apart, see Pipe."""

    def __init__(self, pipe, name):
        super().__init__(pipe, encoding="utf-8", errors="backslashreplace",
                         write_through=True)
        self.mode = "w"
        self._label = name

    @property
    def name(self):
        return self._label

    def close(self):
        self.flush()

    def detach(self):
        self.flush()
        return self.buffer


def make_print(known):
    """print() that writes once: the built-in one writes its end apart, which
    on an unbuffered stream is a second event and lets threads cut in."""
    def print(*values, sep=" ", end="\n", file=None, flush=False):
        if file is None:
            file = sys.stdout
        if sep is None:
            sep = " "
        if end is None:
            end = "\n"
        if type(file) is Text and type(sep) is str and type(end) is str:
            file.write(sep.join(map(str, values)) + end)
        else:
            known(*values, sep=sep, end=end, file=file, flush=flush)

    print.__module__, print.__qualname__ = "builtins", "print"
    print.__doc__ = known.__doc__
    return print


class Streams:
    """Both streams, their order, and what it takes to keep them alive."""

    def __init__(self, channel):
        self.order = Order(channel)
        self.keyboard = glovebox_input.Keyboard(channel)
        self.out = Text(Pipe(1, self.order), "<stdout>")
        self.err = Text(Pipe(2, self.order), "<stderr>")
        self.print = make_print(builtins.print)
        self.spare = {}
        channel.before_send = self.flush
        channel.after_display = self.order.displayed

    def install(self):
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err
        sys.stdin = sys.__stdin__ = glovebox_input.Stdin(self.keyboard)
        self.keyboard.install()
        builtins.print = self.print

    def watch_children(self):
        """Children write to the pipes themselves: what was printed before
        one starts goes first, what is printed next comes after."""
        order = self.order

        def hook(event, args):
            if event in _CHILDREN and order.running:
                try:
                    order.settle()
                except OSError:
                    pass  # A cell closed the channel; that is not for here.
                order.displayed()

        sys.addaudithook(hook)

    def keep_spares(self):
        """Copies of the pipes, for a cell that closes descriptor 1 or 2."""
        import fcntl
        for fd in (1, 2):
            self.spare[fd] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, SPARE_FD)

    def flush(self):
        """Everything Python still holds goes to the pipes."""
        for stream in (self.out, self.err):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # The descriptor is gone; repair() brings it back.
        for name in ("stdout", "stderr"):
            # A replacement made by the user may wrap ours and hold text.
            stream = getattr(sys, name, None)
            if stream is not self.out and stream is not self.err:
                try:
                    stream.flush()
                except Exception:
                    pass  # User code; what it loses is its own.

    def repair(self):
        """After a cell: descriptors 1 and 2 are open again."""
        for fd, spare in self.spare.items():
            try:
                os.fstat(fd)
            except OSError:
                try:
                    os.dup2(spare, fd, inheritable=True)
                except OSError:
                    pass  # The copy was closed too: output is lost, not us.
