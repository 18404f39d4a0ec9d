# SPDX-License-Identifier: Apache-2.0
"""What a cell finds around it: environment, and packages it installed.

Runs in the kernel process. The daemon sets variables when a session is given
a network or loses it; packages come and go by pip, in the user's own folder.
"""
import importlib
import os
import sys

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)


# What variables were before the daemon set them.
_before = {}


def set_environment(payload):
    """Lines NAME=VALUE, or NAME to take one away."""
    for line in payload.decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if name:
            _before.setdefault(name, os.environ.get(name))
        if equals:
            os.environ[name] = value
        elif name:
            os.environ.pop(name, None)


def forget_environment():
    """In another sandbox: what the daemon set for the last one is undone; it
    sends what holds now."""
    for name, value in _before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _before.clear()


class Installed:
    """The folder pip installs to, looked at before each cell. Looking costs
    one stat; only a change of it costs more."""

    def __init__(self, home):
        self.folder = os.path.join(
            home, ".local", "lib", "python%d.%d" % sys.version_info[:2],
            "site-packages")
        self.seen = None
        # Cells may replace any of these.
        self.stat = os.stat

    def look(self):
        try:
            changed = self.stat(self.folder).st_mtime_ns
        except OSError:
            return
        if changed != self.seen:
            self.seen = changed
            try:
                self.use()
            except Exception:
                pass  # A cell broke sys.path; then it stays as it is.

    def use(self):
        """As the site module would have done at start, had it been there:
        before the image's own packages."""
        if self.folder not in sys.path:
            at = next((i for i, entry in enumerate(sys.path)
                       if str(entry).endswith(("site-packages",
                                               "dist-packages"))),
                      len(sys.path))
            sys.path.insert(at, self.folder)
        importlib.invalidate_caches()
