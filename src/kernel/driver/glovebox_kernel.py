# SPDX-License-Identifier: Apache-2.0
"""The kernel of a session: takes cells, runs them, says how they ended.

Built in the zygote; run() is called in a session's pid 2, inside all walls,
by glovebox_zygote. It runs hostile code in its own process and therefore
promises nothing: it only tries to go on, so that an honest user's session
survives an honest mistake. If it cannot, it ends, and the daemon knows.
"""
import faulthandler
import gc
import os
import signal
import threading

import _glovebox
import glovebox_errors
import glovebox_frames
import glovebox_grant
import glovebox_look
import glovebox_reseed
import glovebox_surround
import glovebox_warm
from glovebox_cell import Outcome
from glovebox_frames import (ENVIRONMENT, EXECUTE, KEYBOARD, LOOK, READY,
                             WOKEN)

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

EXIT_BROKEN = 70  # the driver itself cannot go on


class Kernel:
    """One interpreter and its link to the daemon."""

    def __init__(self, channel, streams, interpreter):
        self.channel = channel
        self.streams = streams
        self.interpreter = interpreter
        self.looker = glovebox_look.Looker(channel, interpreter)
        self.generators = None
        self.setters = []
        self.installed = None

    def prepare(self):
        """In the zygote, last: find what each session must set anew."""
        self.setters = glovebox_grant.prepare()
        self.generators = glovebox_reseed.collect()

    def run(self, grant):
        """In the session: never returns."""
        try:
            self.settle(grant)
            self.channel.send(READY)
            self.loop()
        except BaseException as exc:
            # No way back to Python's own end: that would wait for threads.
            name, text, _, _ = glovebox_errors.describe(exc)
            line = "the kernel cannot go on: %s: %s\n" % (name, text)
            os.write(2, glovebox_frames.to_text(line))
        finally:
            os._exit(EXIT_BROKEN)

    def loop(self):
        while True:
            try:
                kind, payload = _glovebox.recv()
            except EOFError:
                os._exit(0)
            except KeyboardInterrupt:
                continue  # Meant for a cell that was over by then.
            if kind == EXECUTE:
                self.serve(payload)
            elif kind == ENVIRONMENT:
                glovebox_surround.set_environment(payload)
            elif kind == KEYBOARD:
                self.streams.keyboard.allowed = True
            elif kind == LOOK:
                self.looker.serve(payload)
            elif kind == WOKEN:
                self.wake(payload)
                self.channel.send(READY)

    def settle(self, grant):
        """From a copy of the zygote to a kernel of its own."""
        set_signals()
        self.generators.reseed()
        glovebox_grant.apply(grant["cores"], self.setters)
        os.environ["HOME"] = grant["home"]
        self.installed = glovebox_surround.Installed(grant["home"])
        # One cell now, so that its pages are ours before a user waits.
        self.interpreter.execute(glovebox_warm.FIRST)
        self.interpreter.reset()
        self.streams.order.muted = False
        self.streams.install()
        self.streams.keep_spares()
        faulthandler.enable(2)
        gc.enable()
        self.channel.active = True

    def wake(self, grant):
        """From an image to a kernel in another sandbox: what belongs to the
        sandbox is set again, and no random state is that of the image."""
        threading.main_thread()._set_native_id()
        self.generators.reseed()
        glovebox_grant.apply(grant["cores"], self.setters, always=True)
        glovebox_surround.forget_environment()
        os.environ["HOME"] = grant["home"]

    def serve(self, payload):
        """One EXECUTE: the cell, its frames, DONE."""
        source = payload.decode("utf-8", "replace")
        self.installed.look()
        self.channel.files.begin()
        self.streams.order.begin()
        outcome = self.run_cell(source)
        self.streams.keyboard.allowed = False
        self.streams.order.end()
        self.streams.repair()
        if outcome.error is not None:
            self.channel.error(*outcome.error)
        self.channel.reads()
        self.channel.done(outcome.status)

    def run_cell(self, source):
        """Runs a cell where it can be interrupted, and only there."""
        pid = os.getpid()
        try:
            _glovebox.run_begin()
            try:
                outcome = self.interpreter.execute(source)
            finally:
                _glovebox.run_end()
        except BaseException as exc:
            # An interrupt after the cell, or during the report on it. What
            # it interrupted may be the str() of the exception before it.
            exc.__cause__ = exc.__context__ = None
            outcome = Outcome(glovebox_errors.describe(exc))
        if os.getpid() != pid or not self.channel.active:
            # The cell forked and both came back here. Only one is the
            # kernel; the copy ends as a script would.
            self.leave_copy(outcome)
        return outcome

    def leave_copy(self, outcome):
        if outcome.last_words:
            os.write(2, glovebox_frames.to_text(outcome.last_words + "\n"))
        self.streams.flush()
        os._exit(outcome.exit_code)


def set_signals():
    """As a fresh python has them, whatever the zygote's were."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
