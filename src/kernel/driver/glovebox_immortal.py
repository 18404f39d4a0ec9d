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
_IMMORTAL = 0xFFFFFFFF


def possible():
    """Does this interpreter keep counts as _glovebox.immortalize expects?"""
    return ((3, 12) <= sys.version_info[:2] <= (3, 13)
            and sys.implementation.name == "cpython"
            and getattr(sys, "_is_gil_enabled", lambda: True)()
            and sys.maxsize == 2 ** 63 - 1
            and sys.getrefcount(None) == _IMMORTAL)


def _lasting(objects):
    return [o for o in objects if not isinstance(o, _PASSING)]


def everything():
    """Marks all that the collector knows and what that refers to; returns
    how many objects it changed."""
    if not possible():
        return 0
    known = _lasting(gc.get_objects())
    within = _lasting(gc.get_referents(*known))
    # Containers the collector does not track, of plain values.
    plain = [o for o in within if type(o) in (tuple, dict, frozenset)]
    values = _lasting(gc.get_referents(*plain))
    code = [o for o in within if isinstance(o, types.CodeType)]
    parts = [part for c in code for part in (c.co_consts, c.co_names)]
    lists = [known, within, plain, values, code, parts]
    count = sum(_glovebox.immortalize(each) for each in lists)
    return count
