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
BRIEF_FRAMES_MAX = 8
BRIEF_CHAIN_MAX = 4
BRIEF_PARTS_MAX = 10  # of an exception group
BRIEF_LINE_MAX = 200
BRIEF_MESSAGE_MAX = 1000
LINE_NUMBER_MAX = 200_000  # sources longer than this are not searched

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
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


def _place(code, number):
    cell = _CELL_NAME.fullmatch(code.co_filename)
    if cell is not None:
        return "Cell In[%s], line %d" % (cell[1], number)
    return "File %s:%d" % (code.co_filename, number)


def _frame_lines(code, number, around=AROUND):
    """One frame: where, then the lines around it."""
    name = code.co_filename
    yield _place(code, number) + _signature(code)
    first = max(number - around, 1)
    try:
        lines = _source(name, first, number + around)
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


# --- the brief form -------------------------------------------------------

def _is_library(code):
    """Is this code of Python or of a package, rather than the user's?"""
    name = code.co_filename
    if name.startswith("<"):
        return name != "<string>" and not _CELL_NAME.fullmatch(name)
    return (name.startswith(_STANDARD_LIBRARY) or "/site-packages/" in name
            or "/dist-packages/" in name)


def _shorten(text, limit):
    return text if len(text) <= limit else "%s … %d more characters" % (
        text[:limit], len(text) - limit)


def _brief_frames(tb):
    """The user's frames and the last one, each with the line that ran."""
    frames = _stack(tb)
    kept = [at for at, frame in enumerate(frames)
            if at == len(frames) - 1 or not _is_library(frame[0])]
    if len(kept) > BRIEF_FRAMES_MAX:
        kept = kept[:2] + kept[2 - BRIEF_FRAMES_MAX:]
    before = -1
    for at in kept:
        left_out = sum(times for _, _, times in frames[before + 1:at])
        if left_out:
            yield "[... %d frame%s left out ...]" % (
                left_out, "" if left_out == 1 else "s")
        code, number, times = frames[at]
        for line in _frame_lines(code, number, 0):
            if line:
                yield _shorten(line, BRIEF_LINE_MAX)
        if times > 1:
            yield "[... the same frame %d more times ...]" % (times - 1)
        before = at


def _brief_cause(exc, link):
    """An earlier exception of the chain in one line."""
    text = " ".join(last_lines(exc, None).split())
    line = "%s %s" % ("Caused by" if link == "cause" else "While handling",
                      _shorten(text, BRIEF_LINE_MAX))
    tb = clean(exc.__traceback__)
    if tb is not None:
        code, number, _ = _stack(tb)[-1]
        line += " (%s)" % _place(code, number)
    return line


def brief(exc):
    """Lines for a reader with little room; see lines()."""
    result = list(_brief_frames(exc.__traceback__))
    result += _shorten(last_lines(exc, exc.__traceback__),
                       BRIEF_MESSAGE_MAX).split("\n")
    if _is_group(exc):
        for part in exc.exceptions[:BRIEF_PARTS_MAX]:
            text = " ".join(last_lines(part, None).split())
            result.append("- " + _shorten(text, BRIEF_LINE_MAX))
        left_out = len(exc.exceptions) - BRIEF_PARTS_MAX
        if left_out > 0:
            result.append("- … %d more" % left_out)
    earlier = _chain(exc)[:-1]
    for one, link in reversed(earlier[-BRIEF_CHAIN_MAX:]):
        result.append(_brief_cause(one, link))
    if len(earlier) > BRIEF_CHAIN_MAX:
        result.append("… %d earlier exceptions" % (
            len(earlier) - BRIEF_CHAIN_MAX))
    return result
