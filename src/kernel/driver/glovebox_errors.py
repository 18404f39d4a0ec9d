# SPDX-License-Identifier: Apache-2.0
"""From an exception to what the daemon is told: name, message, lines.

Runs in the kernel process after a cell failed. Everything about an exception
is user code (its class, str(), notes, causes), so every step has a fallback
and the sum is capped, keeping head and tail.
"""
import re
import sys

import glovebox_traceback

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

TOTAL_MAX = 64 << 10
LINE_MAX = 2000
LINES_MAX = 240
MESSAGE_MAX = 16 << 10
BRIEF_MAX = 3500

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def cut(text, limit):
    """Head and tail of a text that is too long."""
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 5
    return "%s … %d characters left out … %s" % (
        text[:head], len(text) - head - tail, text[-tail:])


def cap(lines):
    """Lines that fit the frame: no colours, head and tail kept."""
    lines = [cut(_ANSI.sub("", line), LINE_MAX) for line in lines]
    keep = min(len(lines), LINES_MAX)
    while True:
        if keep < len(lines):
            head = (keep + 1) // 2
            shown = lines[:head]
            shown.append("… %d lines left out …" % (len(lines) - keep))
            shown += lines[len(lines) - (keep - head):]
        else:
            shown = lines
        size = sum(len(line.encode("utf-8", "backslashreplace"))
                   for line in shown)
        if size <= TOTAL_MAX or keep <= 2:
            return shown
        keep = keep * 3 // 4


def type_name(exc):
    try:
        return cut(str(type(exc).__name__), 200)
    except Exception:
        return "Exception"


def message(exc):
    try:
        if isinstance(exc, SyntaxError) and exc.msg:
            text = str(exc.msg)
        else:
            text = str(exc)
        text = _ANSI.sub("", glovebox_traceback.relabel(text))
    except Exception:
        text = "<the exception's str() failed>"
    return cut(text, MESSAGE_MAX)


def describe(exc, special=None):
    """(name, message, lines, brief) of an exception. special(exc) may give
    lines of its own, or None; whatever it raises, the usual ones are next.
    brief is a text with the frames of the user's code only."""
    name, text = type_name(exc), message(exc)
    try:
        exc.__traceback__ = glovebox_traceback.clean(exc.__traceback__)
        remember(exc)
    except Exception:
        pass  # A class of the user's may refuse; its frames are then shown.
    shown = brief = None
    for make in (special, glovebox_traceback.lines):
        if make is not None and shown is None:
            try:
                made = make(exc)
                shown = None if made is None else cap(made)
                if make is not special:
                    brief = "\n".join(cap(glovebox_traceback.brief(exc)))
            except Exception:
                pass  # Odd exceptions trip it; the next way is plainer.
    if shown is None:
        shown = cap(("%s: %s" % (name, text) if text else name).split("\n"))
    if brief is None:
        brief = "\n".join(shown)
    return name, text, shown, cut(brief, BRIEF_MAX)


def remember(exc):
    """What %debug, %tb and traceback.print_last() look at."""
    sys.last_type, sys.last_value = type(exc), exc
    sys.last_traceback = exc.__traceback__
    sys.last_exc = exc
