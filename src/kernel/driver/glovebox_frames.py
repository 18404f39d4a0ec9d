# SPDX-License-Identifier: Apache-2.0
"""What a kernel says to the daemon: frames and their payloads.

Runs in the kernel process. The byte contract is src/wire/kernel_msg.h; the
socket itself belongs to the C extension. Nothing sent from here is believed
by the daemon beyond what a session may say of itself. A process the session
forks never sends: its frames would end up between those of the kernel.
"""
import base64
import binascii
import json
import os
import struct
import threading

import _glovebox
import glovebox_brief

# A cell may delete or replace builtins. The driver keeps its own, so that
# the loop goes on and reports what happened.
__builtins__ = dict(__builtins__)

EXECUTE, SYNCED, ENVIRONMENT, KEYBOARD, ANSWER, LOOK = range(1, 7)
(READY, DISPLAY, RESULT, ERROR, DONE, SYNC, CLEAR, READS, INPUT,
 SEEN) = range(16, 26)
WOKEN = 255  # from recv() only: this process continues from an image
DONE_OK, DONE_ERROR = 0, 1

FRAME_MAX = 16 << 20
KEY_MAX = 255
PAIRS_MAX = 256
NOTE_HEAD = 1 << 20  # how much of an oversized text is still shown

DISPLAY_ID = "application/x.glovebox.display-id"

_LENGTHS = struct.Struct("=II")
_ROOM = FRAME_MAX - PAIRS_MAX * (_LENGTHS.size + KEY_MAX)
_DONE = struct.Struct("=II")


def to_text(value):
    """UTF-8 of any str: lone surrogates are shown, not refused."""
    return value.encode("utf-8", "backslashreplace")


def pairs(items):
    """The payload of (str, bytes) pairs."""
    parts = []
    for key, value in items:
        key = to_text(key)
        parts.append(_LENGTHS.pack(len(key), len(value)))
        parts.append(key)
        parts.append(value)
    return b"".join(parts)


def _finite(value):
    """JSON has no NaN and no infinity; null is what browsers show for it."""
    if isinstance(value, float) and (value != value or value in (
            float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def _json_default(value):
    # numpy scalars and arrays know how to become plain values.
    convert = getattr(value, "tolist", None)
    return convert() if convert is not None else str(value)


def _to_json(value):
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False,
                          default=_json_default)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False,
                          default=str)
    return to_text(text)


def _is_binary(mime):
    return (mime.startswith(("image/", "audio/", "video/", "font/"))
            and not mime.endswith("+xml")) or mime in (
                "application/pdf", "application/octet-stream")


def encode_value(mime, value):
    """Bytes of one representation, or None when it cannot be carried."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if mime == "application/json" or mime.endswith("+json"):
        return _to_json(value)
    if not isinstance(value, str):
        # Some libraries give text as a list of lines, as notebooks store it.
        if isinstance(value, (list, tuple)) and all(
                isinstance(line, str) for line in value):
            value = "".join(value)
        else:
            value = str(value)
    if _is_binary(mime):
        # Display protocols of notebooks carry binary types as base64.
        try:
            return base64.b64decode(value)
        except (ValueError, binascii.Error):
            return None
    return to_text(value)


def encode_bundle(bundle):
    """A mime bundle as (str, bytes) pairs that fit one frame."""
    items = []
    for mime, value in bundle.items():
        if value is None or not isinstance(mime, str) or not mime:
            continue
        if len(to_text(mime)) > KEY_MAX or len(items) >= PAIRS_MAX - 1:
            continue
        data = encode_value(mime, value)
        if data is not None:
            items.append((mime, data))
    return _fit(items)


def _fit(items):
    """Replaces the largest values by a note until the rest fits."""
    notes = []
    while sum(len(data) for _, data in items) > _ROOM:
        index = max(range(len(items)), key=lambda i: len(items[i][1]))
        mime, data = items.pop(index)
        note = "[%s of %.1f MiB is too large to show; save it to a file]" % (
            mime, len(data) / 2**20)
        if mime == "text/plain":
            head = data[:NOTE_HEAD].decode("utf-8", "ignore")
            note = head + "\n" + note
        notes.append(note)
    if notes:
        plain = b"".join(d for mime, d in items if mime == "text/plain")
        items = [(m, d) for m, d in items if m != "text/plain"]
        text = "\n".join(notes)
        if plain:
            text = plain.decode("utf-8") + "\n" + text
        items.insert(0, ("text/plain", to_text(text)))
    return items


class Channel:
    """The kernel's sending side, silent until the kernel is up.

    before_send is called ahead of every frame (the streams flush there).
    after_display is told when a display went out, so that what is printed
    next waits until the daemon has taken it in.
    """

    def __init__(self):
        self.active = False
        self.before_send = None
        self.after_display = None
        self.files = glovebox_brief.Files()
        # Threads display too, and a frame must stay in one piece. Signal
        # handlers may do so in the middle of it all, hence reentrant.
        self.lock = threading.RLock()
        # In a fork of the kernel everything below becomes a no-op.
        os.register_at_fork(after_in_child=self.deactivate)

    def deactivate(self):
        self.active = False

    def send(self, kind, payload=b""):
        if not self.active:
            return
        if self.before_send is not None:
            self.before_send()
        with self.lock:
            _glovebox.send(kind, payload)

    def display(self, bundle, kind=DISPLAY, display_id=None):
        """Sends a mime bundle as DISPLAY or RESULT; empty ones are skipped."""
        if self.active:
            bundle = glovebox_brief.complete(bundle, self.files)
        items = encode_bundle(bundle)
        if not items:
            return
        if display_id is not None:
            items.append((DISPLAY_ID, to_text(str(display_id))))
        self.send(kind, pairs(items))
        if self.after_display is not None:
            self.after_display()

    def clear(self, wait):
        self.send(CLEAR, b"\x01" if wait else b"\x00")
        if self.after_display is not None:
            self.after_display()

    def error(self, name, message, lines, brief):
        items = [("name", to_text(name)), ("message", to_text(message)),
                 ("brief", to_text(brief))]
        items += [("traceback", to_text(line)) for line in lines]
        self.send(ERROR, pairs(items[:PAIRS_MAX]))

    def reads(self):
        """Which files the cell opened, if any; before done()."""
        if self.active:
            payload = _glovebox.reads()
            if payload is not None:
                self.send(READS, payload)

    def done(self, status):
        self.send(DONE, _DONE.pack(status, 0))

    def sync(self):
        """Waits until the daemon has read everything printed so far."""
        if self.active:
            with self.lock:
                _glovebox.sync()
