# SPDX-License-Identifier: Apache-2.0
"""Cells without IPython, for images that do not carry it.

Runs in the kernel process. Plain Python: the last expression's value,
display(), top-level await and standard tracebacks; no magics, no `!`.
"""
import builtins
import sys

import glovebox_brief
import glovebox_cell
from glovebox_frames import RESULT

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

# Method of an object, and the type of what it returns.
REPRESENTATIONS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)


def _call(method, **kwargs):
    value = method(**kwargs)
    # Methods may return (data, metadata); metadata is not carried.
    return value[0] if isinstance(value, tuple) else value


def bundle_of(value):
    """All representations of an object; one that fails is left out."""
    bundle = {"text/plain": repr(value)}
    if isinstance(value, type):
        return bundle
    for name, mime in REPRESENTATIONS:
        method = getattr(value, name, None)
        if method is None:
            continue
        try:
            data = _call(method)
        except Exception:
            continue
        if data is not None:
            bundle[mime] = data
    method = getattr(value, "_repr_mimebundle_", None)
    if method is not None:
        try:
            bundle.update(_call(method, include=None, exclude=None) or {})
        except Exception:
            pass  # As above: the other representations stay.
    brief = glovebox_brief.table(value)
    if brief is not None:
        bundle[glovebox_brief.BRIEF] = brief
    return bundle


class PlainInterpreter(glovebox_cell.Interpreter):
    """See glovebox_cell.Interpreter."""

    shell = None

    def __init__(self, namespace, channel):
        super().__init__(namespace)
        self.channel = channel
        sys.displayhook = self.show
        builtins.display = self.display
        builtins.exit = builtins.quit = sys.exit
        self.keep_pristine()

    def show(self, value):
        if value is None:
            return
        self.namespace["_"] = value
        if self.final:
            self.channel.display(bundle_of(value), RESULT)
        else:
            self.channel.display(bundle_of(value))

    def display(self, *values, raw=False, display_id=None, **kwargs):
        for value in values:
            bundle = value if raw else bundle_of(value)
            self.channel.display(bundle, display_id=display_id)
