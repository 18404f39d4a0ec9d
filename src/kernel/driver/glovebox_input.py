# SPDX-License-Identifier: Apache-2.0
"""input(), getpass() and sys.stdin of a cell.

Runs in the kernel process. A client that can answer says so with each cell
(the frame KEYBOARD); then a prompt goes out as INPUT and the cell waits for
the ANSWER. In all other cells, in threads and in forked processes reading
fails at once and says what to do instead.
"""
import builtins
import io
import struct
import threading

import _glovebox
from glovebox_frames import INPUT, to_text

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

NO_INPUT = ("input() is not available here: this session has no keyboard; "
            "pass the value in the code or in a file below /mnt/data, or "
            "start the execution with \"input\": true and answer its "
            "input_request events")
OTHER_THREAD = ("input() is only available in the main thread: read the value "
                "there and pass it on")
NO_MORE = "input() was asked too often by one execution"
PROMPT_MAX = 65536
TEXT, PASSWORD, WITHDRAWN, EOF, REFUSED = range(1, 6)

_HEAD = struct.Struct("=II")


class StdinUnavailableError(EOFError):
    """Raised by anything that would read from a keyboard that is not there."""

    __module__ = "builtins"  # so that tracebacks show the bare name


class Keyboard:
    """The one who types, if there is one; allowed is set for one cell."""

    def __init__(self, channel):
        self.channel = channel
        self.allowed = False
        self.number = 0

    def ask(self, prompt, how=TEXT):
        """One line without its newline, or None at the end of input."""
        channel = self.channel
        if not self.allowed or not channel.active:
            raise StdinUnavailableError(NO_INPUT)
        if threading.current_thread() is not threading.main_thread():
            raise StdinUnavailableError(OTHER_THREAD)
        prompt = to_text(prompt)[:PROMPT_MAX].decode("utf-8", "ignore")
        if channel.before_send is not None:
            channel.before_send()
        with channel.lock:
            self.number = self.number + 1 & 0xFFFFFFFF
            try:
                answer = _glovebox.ask(self.number, _HEAD.pack(
                    self.number, how) + to_text(prompt))
            except BaseException:
                # Interrupted: a late answer must not count for the next.
                _glovebox.send(INPUT, _HEAD.pack(self.number, WITHDRAWN))
                raise
        how = _HEAD.unpack_from(answer)[1]
        if how == REFUSED:
            raise StdinUnavailableError(NO_MORE)
        if how == EOF:
            return None
        return answer[_HEAD.size:].decode("utf-8", "replace")

    def line(self, prompt, how=TEXT):
        answer = self.ask(prompt, how)
        if answer is None:
            raise EOFError("EOF when reading a line")
        return answer

    def install(self):
        """Stands in for input() and getpass()."""
        keyboard = self

        def input(prompt="", /):
            return keyboard.line(str(prompt))

        def ask_password(prompt="Password: ", stream=None, **kwargs):
            return keyboard.line(str(prompt), PASSWORD)

        input.__module__, input.__qualname__ = "builtins", "input"
        input.__doc__ = builtins.input.__doc__
        ask_password.__name__ = ask_password.__qualname__ = "getpass"
        builtins.input = input
        import getpass
        getpass.getpass = ask_password


class _Bytes(io.BufferedIOBase):
    """sys.stdin.buffer."""

    def __init__(self, text):
        self._text = text

    def read(self, size=-1, /):
        return self._text.read().encode("utf-8")

    def readline(self, size=-1, /):
        return self._text.readline().encode("utf-8")

    def readable(self):
        return True


class Stdin(io.TextIOBase):
    """sys.stdin: lines of the keyboard, if there is one."""

    name = "<stdin>"
    encoding = "utf-8"
    errors = "strict"

    def __init__(self, keyboard):
        self._keyboard = keyboard

    def readline(self, size=-1, /):
        answer = self._keyboard.ask("")
        return "" if answer is None else answer + "\n"

    def read(self, size=-1, /):
        lines = []
        while True:
            line = self.readline()
            if not line:
                return "".join(lines)
            lines.append(line)

    def readlines(self, hint=-1, /):
        return self.read().splitlines(True)

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def __iter__(self):
        return self

    @property
    def buffer(self):
        return _Bytes(self)

    def readable(self):
        return True

    def fileno(self):
        return 0  # /dev/null, for subprocesses that are handed sys.stdin

    def isatty(self):
        return False

    def close(self):
        pass
