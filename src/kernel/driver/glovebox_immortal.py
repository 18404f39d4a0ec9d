# SPDX-License-Identifier: Apache-2.0
"""Objects of the zygote that no session will ever free.

Looking at a Python object writes to it: its reference count. In a session
that is a copy of the page it lies on, for nothing, because what the zygote
imported stays for good. From CPython 3.12 on an object can be immortal: its
count is neither raised nor lowered. None is; here everything else that
exists before the freeze becomes so too. Runs once, in the zygote.
"""
import gc
import sys
import types

import _glovebox

__builtins__ = dict(__builtins__)

# Alive only while something runs; their counts are how they end.
_PASSING = (types.FrameType, types.GeneratorType, types.CoroutineType,
            types.AsyncGeneratorType, types.TracebackType)
_IMMORTAL = {(3, 12): 0xFFFFFFFF, (3, 13): 0xFFFFFFFF, (3, 14): 0xC0000000}


def possible():
    """Does this interpreter keep counts as _glovebox.immortalize expects?"""
    return (sys.implementation.name == "cpython"
            and getattr(sys, "_is_gil_enabled", lambda: True)()
            and sys.maxsize == 2 ** 63 - 1
            and sys.byteorder == "little"
            and sys.getrefcount(None) == _IMMORTAL.get(sys.version_info[:2]))


def _lasting(objects):
    return [o for o in objects if not isinstance(o, _PASSING)]


def _classes():
    """All of them, those written in C too, whose dictionaries nothing that
    the collector knows refers to."""
    found, seen = [object], {object}
    for each in found:  # grows while it is walked
        for below in type.__subclasses__(each):
            if below not in seen:
                seen.add(below)
                found.append(below)
    return found


def _within(objects):
    """What these refer to. The collector does not look into code: every run
    of a function looks at its constants."""
    parts = gc.get_referents(*objects)
    for o in objects:
        if isinstance(o, types.CodeType):
            parts += [o.co_consts, o.co_names, o.co_name, o.co_qualname,
                      o.co_filename, *o.co_consts]
    return _lasting(parts)


def everything():
    """Marks all that the collector knows and whatever can be reached from
    it; returns how many objects it changed."""
    if not possible():
        return 0
    found = gc.get_objects()
    found += gc.get_referents(*map(vars, _classes()))
    found = _lasting(found)
    count = 0
    while found:
        changed = _glovebox.immortalize(found)
        count += len(changed)
        found = _within(changed)
    return count
