# SPDX-License-Identifier: Apache-2.0
"""One cell: parse, compile, run, and say how it ended.

Runs in the kernel process. Interpreter is the part that is the same with
and without IPython; glovebox_shell and glovebox_plain fill in the rest.
A cell is compiled whole, not statement by statement, so that what cannot
compile does not half run.
"""
import __future__
import ast
import asyncio
import inspect
import linecache
import sys
import zlib

import glovebox_errors
from glovebox_frames import DONE_ERROR, DONE_OK

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

CANCEL_SECONDS = 1.0
DEPTH_MIN = 1000

_FUTURE_MASK = 0
for _feature in __future__.all_feature_names:
    _FUTURE_MASK |= getattr(__future__, _feature).compiler_flag
_ASSIGN = (ast.Assign, ast.AugAssign, ast.AnnAssign)


class Outcome:
    """How a cell ended. error is (name, message, lines, brief) or None.
    exit_code and last_words are those of a process that ends this way."""

    __slots__ = ("status", "error", "exit_code", "last_words")

    def __init__(self, error=None, exit_code=None, last_words=None):
        self.status = DONE_OK if error is None else DONE_ERROR
        self.error = error
        self.exit_code = self.status if exit_code is None else exit_code
        if last_words is None and error is not None:
            last_words = "\n".join(error[2])
        self.last_words = last_words


def cell_name(number, source):
    """The file name of a cell. Tools know this form from IPython."""
    data = source.encode("utf-8", "backslashreplace")
    return "<ipython-input-%d-%08x>" % (number, zlib.crc32(data))


def split(body, interactivity):
    """The cell as (tree, mode) to run in order; "single" shows its value."""
    if not body:
        return []
    last = body[-1]
    if interactivity == "last_expr_or_assign":
        if isinstance(last, _ASSIGN):
            target = last.targets[0] if isinstance(last, ast.Assign) \
                else last.target
            if isinstance(target, ast.Name):
                value = ast.Expr(ast.Name(target.id, ast.Load()))
                ast.copy_location(value, last)
                ast.fix_missing_locations(value)
                body = body + [value]
                last = value
        interactivity = "last_expr"
    if interactivity == "last_expr":
        interactivity = "last" if isinstance(last, ast.Expr) else "none"
    if interactivity == "all":
        return [(ast.Interactive([node]), "single") for node in body]
    if interactivity != "last":
        return [(ast.Module(body, []), "exec")]
    parts = [(ast.Interactive([last]), "single")]
    if len(body) > 1:
        parts.insert(0, (ast.Module(body[:-1], []), "exec"))
    return parts


def outcome_of_exit(exc):
    """sys.exit() ends the cell, not the interpreter, as in notebooks: no
    status or 0 is success, anything else is an error."""
    code = exc.code
    if code is None or isinstance(code, int) and code & 0xFF == 0:
        return Outcome(exit_code=0)
    words = ""
    if isinstance(code, int):
        text = "exit status %d" % (code & 0xFF)
    else:
        text = words = glovebox_errors.message(exc)
    line = "SystemExit: " + text
    return Outcome(("SystemExit", text, glovebox_errors.cap(line.split("\n")),
                    glovebox_errors.cut(line, glovebox_errors.BRIEF_MAX)),
                   code & 0xFF if isinstance(code, int) else 1, words)


class Interpreter:
    """Runs cells in one namespace. Not thread-safe; one per kernel."""

    interactivity = "last_expr"

    def __init__(self, namespace):
        self.namespace = namespace
        self.number = 1
        self.flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.loop = None
        self.final = True  # the value being shown is the cell's last
        self.pristine = None

    # --- what the two kinds fill in --------------------------------------

    def parse(self, source):
        """(tree, source as compiled, name); raises SyntaxError."""
        name = self.name_cell(source)
        return self.to_tree(source, name), source, name

    def name_cell(self, source):
        """Gives a cell its file name, by which tracebacks find its lines."""
        name = cell_name(self.number, source)
        linecache.cache[name] = (len(source), None, source.splitlines(True),
                                 name)
        return name

    def remember(self, raw, source):
        """Before the cell runs: keep it as history."""

    def finish(self):
        """After the cell ran, well or not: show what waits to be shown."""

    def special_lines(self, exc):
        """Traceback lines where the usual ones are not wanted, or None."""
        return None

    # --- the same for both -----------------------------------------------

    def keep_pristine(self):
        """What the namespace holds now is what reset() goes back to."""
        self.pristine = dict(self.namespace)

    def reset(self):
        """Forgets everything earlier cells left, as if none had run."""
        self.namespace.clear()
        self.namespace.update(self.pristine)
        self.number = 1
        self.flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        linecache.clearcache()
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)

    def execute(self, source):
        """Runs a cell to its end; returns an Outcome, raises nothing but
        a KeyboardInterrupt that came too late for the cell."""
        try:
            try:
                self.run(source)
            finally:
                self.number += 1
                self.finish()
        except SystemExit as exc:
            return outcome_of_exit(exc)
        except BaseException as exc:
            if sys.getrecursionlimit() < DEPTH_MIN:
                sys.setrecursionlimit(DEPTH_MIN)
            return Outcome(self.describe(exc))
        return Outcome()

    def describe(self, exc):
        return glovebox_errors.describe(exc, self.special_lines)

    def run(self, raw):
        try:
            tree, source, name = self.parse(raw)
        except BaseException:
            self.remember(raw, raw)
            raise
        self.remember(raw, source)
        codes = []
        is_async = 0
        for part, mode in split(tree.body, self.interactivity):
            code = compile(part, name, mode, self.flags, True)
            self.flags |= code.co_flags & _FUTURE_MASK
            is_async |= code.co_flags & inspect.CO_COROUTINE
            codes.append(code)
        if is_async:
            self.run_async(codes)
            return
        final = len(codes) - 1
        for index, code in enumerate(codes):
            self.final = index == final
            exec(code, self.namespace)

    def to_tree(self, source, name):
        return compile(source, name, "exec", self.flags | ast.PyCF_ONLY_AST,
                       True)

    async def _await_all(self, codes):
        final = len(codes) - 1
        for index, code in enumerate(codes):
            self.final = index == final
            value = eval(code, self.namespace)
            if code.co_flags & inspect.CO_COROUTINE:
                await value

    def run_async(self, codes):
        """Awaiting cells share one event loop: what they leave running goes
        on when the next of them runs."""
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(self._await_all(codes))
        try:
            self.loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit) as exc:
            if task.done() or self.loop.is_closed():
                raise
            # It stopped the loop, not the task: end that, and show where
            # it was, not where the loop was.
            raise type(exc)(*exc.args).with_traceback(
                self.cancel(task)) from None

    def cancel(self, task):
        """Ends a task that was interrupted; returns its traceback."""
        task.cancel()
        self.loop.run_until_complete(
            asyncio.wait([task], timeout=CANCEL_SECONDS))
        if not task.done():
            return None  # It swallows cancellation; leave it behind.
        try:
            task.result()
        except BaseException as end:
            return end.__traceback__
        return None
