# SPDX-License-Identifier: Apache-2.0
"""IPython's display machinery, ending in frames.

Runs in the kernel process. Publisher carries display(), Hook carries the
last expression's value, Formatter turns objects into mime bundles and takes
note of the figures it has shown.
"""
import sys

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import DisplayFormatter

import glovebox_brief
import glovebox_grid
from glovebox_frames import DISPLAY, RESULT

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

# Values of exactly these types have one representation only, unless the
# user registered another; asking a dozen formatters for it is most of the
# time a trivial cell takes.
_SIMPLE = frozenset((int, float, complex, bool, str, bytes, list, tuple, dict,
                     set, frozenset, range))


class Publisher(DisplayPublisher):
    """display(), update_display() and clear_output()."""

    channel = None

    def publish(self, data, metadata=None, source=None, *, transient=None,
                update=False, **kwargs):
        display_id = transient.get("display_id") if transient else None
        if data and "text/plain" not in data:
            # Some readers see text only; they should see that it is there.
            data = {"text/plain": "<%s>" % next(iter(data)), **data}
        self.channel.display(data, DISPLAY, display_id)

    def clear_output(self, wait=False):
        self.channel.clear(wait)


class Hook(DisplayHook):
    """sys.displayhook: the value goes out, and stays as _, __ and Out[n]."""

    channel = None
    interpreter = None

    def quiet(self):
        return self.interpreter.hushed

    def __call__(self, result=None):
        if result is None or self.quiet():
            return
        data, _ = self.shell.display_formatter.format(result)
        self.update_user_ns(result)
        self.fill_exec_result(result)
        kind = RESULT if self.interpreter.final else DISPLAY
        self.channel.display(data, kind)

    def update_user_ns(self, result):
        names = self.shell.user_ns
        out = names.get("_oh")
        if result is out or not isinstance(out, dict):
            return
        # An underscore the user assigned is theirs.
        if names.get("_", "") is self._:
            self.___, self.__, self._ = self.__, self._, result
            names["_"], names["__"], names["___"] = self._, self.__, self.___
        number = self.prompt_count
        names["_%d" % number] = result
        out[number] = result
        if len(out) > self.cache_size:
            oldest = next(iter(out))
            del out[oldest]
            names.pop("_%s" % oldest, None)


class Formatter(DisplayFormatter):
    """As IPython's, with a short way for simple values."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.shown = []
        self.plain = self.formatters["text/plain"]
        # What users register for a type goes into these very dicts.
        self.special = [formatter.type_printers for formatter in (
            *self.formatters.values(), self.ipython_display_formatter,
            self.mimebundle_formatter) if formatter is not self.plain]

    def format(self, obj, include=None, exclude=None):
        kind = type(obj)
        if kind in _SIMPLE and not include and not exclude:
            for printers in self.special:
                if kind in printers:
                    break
            else:
                return {"text/plain": self.plain(obj)}, {}
        if kind.__module__ == "matplotlib.figure":
            self.shown.append(obj)
        data, metadata = super().format(obj, include, exclude)
        if "image/png" in data:
            # The same picture; libraries offer both for a reader to choose.
            data.pop("image/jpeg", None)
        if "text/html" in data:
            brief = glovebox_brief.table(obj)
            if brief is not None:
                data[glovebox_brief.BRIEF] = brief
            grid = glovebox_grid.preview(obj)
            if grid is not None:
                data[glovebox_grid.GRID] = grid
        return data, metadata

    def forget_figures(self):
        """A figure shown on purpose is not shown again at the cell's end."""
        shown, self.shown = self.shown, []
        backend = sys.modules.get("matplotlib_inline.backend_inline")
        pyplot = sys.modules.get("matplotlib.pyplot")
        if backend is None or pyplot is None:
            return
        if backend.InlineBackend.instance().close_figures:
            for figure in shown:
                pyplot.close(figure)
