# SPDX-License-Identifier: Apache-2.0
"""Tracebacks in the form people know from IPython, made cheaply.

Runs in the kernel process after a cell failed. Five lines of source a frame,
an arrow at the one that ran, cells as `Cell In[n]`; frames of the driver and
of IPython left out; repeated frames folded. IPython's own formatter parses
every file involved, which costs a session megabytes it keeps.
"""
import asyncio
import builtins
import itertools
import linecache
import os
import re
import textwrap
import traceback
import types

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

RULE = "-" * 75
AROUND = 2  # lines of source before and after the one that ran
FRAMES_MAX = 60
CHAIN_MAX = 20
REPEATS_SHOWN = 3
LINE_NUMBER_MAX = 200_000  # sources longer than this are not searched

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_EVENT_LOOP = os.path.dirname(asyncio.__file__) + os.sep
_CELL_FILE = re.compile(
    r'File "<ipython-input-(\d+)-[0-9a-f]+>", line (\d+)(, in <module>)?')
_CELL_NAME = re.compile(r"<ipython-input-(\d+)-[0-9a-f]+>")
_LINKS = {
    "cause": "The above exception was the direct cause of the following "
             "exception:",
    "context": "During handling of the above exception, another exception "
               "occurred:",
}
hidden_folders = [_HERE]


def hide_package(module):
    """Frames of this package are never shown."""
    folder = os.path.dirname(os.path.abspath(module.__file__)) + os.sep
    if folder not in hidden_folders:
        hidden_folders.append(folder)


def relabel(text):
    """Cells by their number instead of their file name."""
    text = _CELL_FILE.sub(r"Cell In[\1], line \2", text)
    return _CELL_NAME.sub(r"Cell In[\1]", text)


def clean(tb):
    """The traceback without our frames."""
    hidden = (*hidden_folders, "<decorator-gen")
    kept = []
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        # The event loop is ours as far as it stands above the cell.
        if not (name.startswith(hidden)
                or not kept and name.startswith(_EVENT_LOOP)):
            kept.append(tb)
        tb = tb.tb_next
    result = None
    for entry in reversed(kept):
        result = types.TracebackType(result, entry.tb_frame, entry.tb_lasti,
                                     entry.tb_lineno)
    return result


def _source(name, first, last):
    """Lines first to last of a file or cell, as far as there are any."""
    if name in linecache.cache:
        return linecache.getlines(name)[first - 1:last]
    if last > LINE_NUMBER_MAX or not os.path.isfile(name):
        return []
    # Read past, not kept: some sources are large, and errors are many.
    with open(name, encoding="utf-8", errors="replace") as file:
        return list(itertools.islice(file, first - 1, last))


def _signature(code):
    if code.co_name == "<module>":
        return ""
    name = getattr(code, "co_qualname", code.co_name)
    count = code.co_argcount + code.co_kwonlyargcount
    return ", in %s(%s)" % (name, ", ".join(code.co_varnames[:count]))


def _frame_lines(code, number):
    """One frame: where, then the lines around it."""
    name = code.co_filename
    cell = _CELL_NAME.fullmatch(name)
    if cell is not None:
        yield "Cell In[%s], line %d%s" % (cell[1], number, _signature(code))
    else:
        yield "File %s:%d%s" % (name, number, _signature(code))
    first = max(number - AROUND, 1)
    try:
        lines = _source(name, first, number + AROUND)
    except (OSError, ValueError):
        lines = []
    text = textwrap.dedent("".join(lines)).rstrip("\n")
    for at, line in enumerate(text.split("\n") if text else [], first):
        label = str(at)
        if at == number:
            yield "%s> %s %s" % ("-" * (5 - len(label)), label, line)
        elif line.strip():
            yield "%7s %s" % (label, line)
        else:
            yield "%7s" % label
    yield ""


def _stack(tb):
    """(code, line, times) of each frame, neighbours of one place folded."""
    frames = []
    while tb is not None:
        code, number = tb.tb_frame.f_code, tb.tb_lineno or 0
        if frames and frames[-1][:2] == [code, number]:
            frames[-1][2] += 1
        else:
            frames.append([code, number, 1])
        tb = tb.tb_next
    return frames


def _stack_lines(tb):
    frames = _stack(tb)
    left_out = len(frames) - FRAMES_MAX
    for index, (code, number, times) in enumerate(frames):
        if left_out > 0 and index == FRAMES_MAX // 2:
            yield "[... %d frames left out ...]" % left_out
            yield ""
        if left_out > 0 and 0 <= index - FRAMES_MAX // 2 < left_out:
            continue
        for _ in range(min(times, REPEATS_SHOWN)):
            yield from _frame_lines(code, number)
        if times > REPEATS_SHOWN:
            yield "[... the same frame %d more times ...]" % (
                times - REPEATS_SHOWN)
            yield ""


def _chain(exc):
    """The exceptions that led to this one, oldest first, with their link."""
    chain, seen, link = [], set(), None
    while exc is not None and id(exc) not in seen and len(chain) < CHAIN_MAX:
        chain.append((exc, link))
        seen.add(id(exc))
        if exc.__cause__ is not None:
            exc, link = exc.__cause__, "cause"
        elif exc.__suppress_context__:
            break
        else:
            exc, link = exc.__context__, "context"
    chain.reverse()
    return chain


def last_lines(exc, tb):
    """`Name: message`, with hints and notes as Python adds them."""
    if isinstance(exc, SyntaxError) and exc.text is None and exc.lineno:
        # The compiler, unlike the parser, does not say which line it was.
        exc.text = "".join(_source(exc.filename or "", exc.lineno, exc.lineno))
    shown = traceback.TracebackException(type(exc), exc, tb, limit=0)
    return relabel("".join(shown.format_exception_only())).rstrip("\n")


def standard(exc, tb):
    """As Python's own traceback module shows it."""
    text = "".join(traceback.format_exception(type(exc), exc, tb))
    return relabel(text).rstrip("\n").split("\n")


def _is_group(exc):
    group = getattr(builtins, "BaseExceptionGroup", None)
    return group is not None and isinstance(exc, group)


def lines(exc):
    """All lines for an exception whose own traceback is clean already."""
    chain = _chain(exc)
    if any(_is_group(link[0]) for link in chain):
        return standard(exc, exc.__traceback__)
    result = []
    for one, link in chain:
        tb = exc.__traceback__ if one is exc else clean(one.__traceback__)
        if tb is not None:
            name = type(one).__name__
            result.append(RULE)
            result.append("%-41s %s" % (
                name, "Traceback (most recent call last)"))
            result.extend(_stack_lines(tb))
        result.extend(last_lines(one, tb).split("\n"))
        if link is not None:
            result += ["", _LINKS[link], ""]
    return result
