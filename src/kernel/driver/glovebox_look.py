# SPDX-License-Identifier: Apache-2.0
"""Completion, inspection and the list of variables, between two cells.

Runs in the kernel process, on the live namespace, and runs no code of the
user: attributes are found without properties or __getattr__, and only values
of known types are shown.
"""
import builtins
import inspect
import json
import keyword
import re
import struct
import sys
import types

from glovebox_frames import SEEN, to_text

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

COMPLETE, INSPECT, VARIABLES = 1, 2, 3
MATCHES_MAX = 500
VARIABLES_MAX = 1000
NAME_MAX = 200
DOC_MAX = 8192
TEXT_MAX = 120
ITEMS_MAX = 6

_REQUEST = struct.Struct("=III")
_NUMBER = struct.Struct("=I")
_PATH = re.compile(r"((?:[^\W\d]\w*\.)*)(\w*)$")
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w*)$")
_FROM = re.compile(r"^\s*from\s+([\w.]+)\s+import\s+(?:\w+\s*,\s*)*(\w*)$")
_MISSING = object()
_SCALARS = (int, float, complex, bool, type(None))
_KINDS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", dict: "{}"}


def _is(value, kinds):
    """isinstance() that does not ask the value for its __class__."""
    return issubclass(type(value), kinds)


def _signature(name, value):
    """The call of a function, with defaults of known types only: the repr()
    of any other is code of the user. None: it is not known."""
    empty = inspect.Parameter.empty
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return None  # Of C code that does not tell.
    parts = []
    for part in found.parameters.values():
        default = part.default
        if default is not empty and type(default) not in _SCALARS + (str,):
            default = Ellipsis
        note = part.annotation
        if type(note) is not str and type(note) is not type:
            note = empty
        parts.append(part.replace(default=default, annotation=note))
    return name + str(inspect.Signature(parts))


def _mro(cls):
    return type.__dict__["__mro__"].__get__(cls)


def _class_dict(cls):
    return type.__dict__["__dict__"].__get__(cls)


def _class_names(cls):
    return {name for base in _mro(cls) for name in _class_dict(base)}


def _instance_dict(value):
    """Its __dict__, unless a class of the user stands in for it."""
    for base in _mro(type(value)):
        entry = _class_dict(base).get("__dict__")
        if entry is not None:
            if type(entry) in (types.GetSetDescriptorType,
                               types.MemberDescriptorType):
                found = entry.__get__(value)
                return found if type(found) is dict else {}
            return {}
    return {}


def _attribute(value, name):
    """What is stored under a name, without asking the value."""
    if not _is(value, type):
        found = _instance_dict(value).get(name, _MISSING)
        if found is not _MISSING:
            return found
    for base in _mro(value if _is(value, type) else type(value)):
        found = _class_dict(base).get(name, _MISSING)
        if found is not _MISSING:
            return found
    return _MISSING


def _names(value):
    names = set()
    if _is(value, types.ModuleType):
        names.update(_instance_dict(value))
    elif _is(value, type):
        names.update(_class_names(value))
    else:
        names.update(_instance_dict(value))
        names.update(_class_names(type(value)))
    return [name for name in names if type(name) is str]


class Looker:
    """Answers LOOK frames about one interpreter's namespace."""

    def __init__(self, channel, interpreter):
        self.channel = channel
        self.interpreter = interpreter

    def serve(self, payload):
        number, what, cursor = _REQUEST.unpack_from(payload)
        code = payload[_REQUEST.size:].decode("utf-8", "replace")
        try:
            answer = {COMPLETE: self.complete, INSPECT: self.inspect,
                      VARIABLES: self.variables}[what](code, cursor)
        except Exception:
            answer = {}  # An odd object; there is nothing to say of it.
        text = to_text(json.dumps(answer))
        self.channel.send(SEEN, _NUMBER.pack(number) + text)

    # --- finding ---------------------------------------------------------

    def find(self, path):
        """The value of a dotted name, or _MISSING."""
        value = self.interpreter.namespace.get(path[0], _MISSING)
        if value is _MISSING:
            value = vars(builtins).get(path[0], _MISSING)
        for name in path[1:]:
            if value is _MISSING:
                break
            value = _attribute(value, name)
            if _is(value, (staticmethod, classmethod)):
                value = value.__func__
        return value

    def visible(self):
        """Variables a user has made, by name."""
        known = self.interpreter.pristine or {}
        return {name: value for name, value in
                list(self.interpreter.namespace.items())
                if type(name) is str and not name.startswith("_")
                and known.get(name, _MISSING) is not value}

    # --- completion ------------------------------------------------------

    def complete(self, code, cursor):
        before = code[:cursor]
        line = before[before.rfind("\n") + 1:]
        match = _PATH.search(line)
        path, prefix = match[1].split(".")[:-1], match[2]
        start = match.start()
        names = []
        if _FROM.match(line):
            module = sys.modules.get(_FROM.match(line)[1])
            names = _names(module) if module is not None else []
        elif _IMPORT.match(line):
            names = list(sys.modules) + sorted(
                getattr(sys, "stdlib_module_names", ()))
            names = [name for name in names if "." not in name]
        elif start and line[start - 1] == ".":
            pass  # Of a call or an index: its value is not known.
        elif path:
            value = self.find(path)
            if type(value) in (property, types.MemberDescriptorType):
                value = _MISSING
            names = _names(value) if value is not _MISSING else []
        elif prefix:
            names = list(self.interpreter.namespace) + list(
                vars(builtins)) + keyword.kwlist
        names = {name for name in names if type(name) is str
                 and name.startswith(prefix) and len(name) <= NAME_MAX
                 and (prefix.startswith("_") or not name.startswith("_"))}
        return {"matches": sorted(names)[:MATCHES_MAX],
                "start": cursor - len(prefix), "end": cursor,
                "truncated": len(names) > MATCHES_MAX}

    # --- inspection ------------------------------------------------------

    def inspect(self, code, cursor):
        end = cursor + len(re.match(r"\w*", code[cursor:])[0])
        match = _PATH.search(code[:end])
        path = [part for part in (match[1] + match[2]).split(".") if part]
        if not path or (match.start() and code[match.start() - 1] == "."):
            return {"found": False}
        value = self.find(path)
        if value is _MISSING:
            return {"found": False}
        answer = {"found": True, "name": ".".join(path)}
        answer.update(self.describe(value))
        if type(value) in (type, types.FunctionType, types.MethodType,
                           types.BuiltinFunctionType):
            signature = _signature(path[-1], value)
            if signature is not None:
                answer["signature"] = signature
        doc = _attribute(value, "__doc__")
        if _is(value, (types.FunctionType, types.BuiltinFunctionType,
                              types.ModuleType)):
            doc = value.__doc__
        if type(doc) is str:
            answer["doc"] = inspect.cleandoc(doc)[:DOC_MAX]
        return answer

    # --- variables -------------------------------------------------------

    def variables(self, code, cursor):
        made = self.visible()
        rows = []
        for name in sorted(made)[:VARIABLES_MAX]:
            if len(name) <= NAME_MAX:
                rows.append({"name": name, **self.describe(made[name])})
        return {"data": rows, "has_more": len(made) > VARIABLES_MAX}

    def describe(self, value):
        """Type, a short text, and shape or size of a value."""
        cls = type(value)
        module = type.__dict__["__module__"].__get__(cls)
        name = type.__dict__["__qualname__"].__get__(cls)
        known = type(module) is str and module.split(".")[0] in (
            "numpy", "pandas", "polars", "pyarrow", "torch")
        row = {"type": name if module == "builtins" or type(module) is not str
               else "%s.%s" % (module, name), "text": self.text(value)}
        if known:
            shape = getattr(value, "shape", None)
            if _is(shape, tuple):
                row["shape"] = [int(part) for part in shape]
            dtype = getattr(value, "dtype", None)
            if dtype is not None:
                row["dtype"] = str(dtype)[:NAME_MAX]
        elif cls in _KINDS or cls in (str, bytes, bytearray, range):
            row["size"] = len(value)
        return row

    def text(self, value, depth=0):
        cls = type(value)
        if cls in _SCALARS:
            if cls is int and value.bit_length() > 256:
                return "int of %d bits" % value.bit_length()
            return repr(value)
        if cls in (str, bytes):
            return repr(value[:TEXT_MAX]) + ("…" if len(value) > TEXT_MAX
                                             else "")
        if cls in _KINDS and depth < 2:
            opening, closing = _KINDS[cls]
            parts = []
            for item in list(value)[:ITEMS_MAX]:
                part = self.text(item, depth + 1)
                if cls is dict:
                    part += ": " + self.text(value[item], depth + 1)
                parts.append(part)
            if len(value) > ITEMS_MAX:
                parts.append("…")
            return (opening + ", ".join(parts) + closing)[:4 * TEXT_MAX]
        if _is(value, types.ModuleType):
            return "module " + str(_instance_dict(value).get("__name__"))
        if cls is types.FunctionType:
            return "function " + value.__qualname__[:NAME_MAX]
        if _is(value, type):
            return "class " + type.__dict__["__qualname__"].__get__(value)
        return ""
