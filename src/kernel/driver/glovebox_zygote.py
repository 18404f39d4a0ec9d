# SPDX-License-Identifier: Apache-2.0
"""The zygote: imports once what all sessions of a runtime share.

Run by the warden inside the runtime's root, as
    python glovebox_zygote.py SOCKET_FD SPEC_FD
with an environment of PATH, HOME and LANG. It never runs user code: its last
act in Python is to hand itself to the C extension, which forks sessions off
it. That call returns only in a session's kernel process, which goes on in
glovebox_kernel. At that point there is one thread and no descriptor but
0, 1, 2 and the socket.
"""
import gc
import importlib
import importlib.util
import json
import os
import sys
import time

SPEC_MAX = 1 << 20
INLINE_BACKEND = "module://matplotlib_inline.backend_inline"


def say(text):
    """One line on the zygote's own stderr, which the warden logs."""
    os.write(2, ("zygote: %s\n" % text).encode("utf-8", "backslashreplace"))


def read_spec(fd):
    """What the runtime wants: {"preload": [...], "environment": {...}}."""
    with os.fdopen(fd, "rb") as file:
        data = file.read(SPEC_MAX + 1)
    if len(data) > SPEC_MAX:
        raise ValueError("the specification is larger than 1 MiB")
    spec = json.loads(data or b"{}")
    preload = spec.get("preload", [])
    environment = spec.get("environment", {})
    if not all(isinstance(name, str) for name in preload):
        raise ValueError("preload is not a list of names")
    if not all(isinstance(value, str) for value in environment.values()):
        raise ValueError("environment is not a map of strings")
    return preload, environment


def set_environment(environment):
    os.environ.update(environment)
    # Where an image has no inline backend, figures are files only.
    if importlib.util.find_spec("matplotlib_inline") is not None:
        os.environ.setdefault("MPLBACKEND", INLINE_BACKEND)
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")


def set_path(own):
    """User modules come first, ours cannot be seen."""
    sys.path[:] = [""] + [entry for entry in sys.path
                          if entry and os.path.abspath(entry) != own]
    sys.argv = [""]
    # We run from a copy nobody may read; programs start the image's own.
    image = os.path.join(sys.base_exec_prefix, "bin",
                         "python%d.%d" % sys.version_info[:2])
    if os.access(image, os.X_OK):
        sys.executable = image


def preload_modules(names):
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as exc:
            say("cannot preload %s: %s: %s" % (name, type(exc).__name__, exc))


def make_interpreter(channel, streams):
    try:
        import glovebox_shell
        return glovebox_shell.ShellInterpreter(channel, streams)
    except Exception as exc:
        # No IPython, or one of a kind we do not know.
        say("cells are plain Python: %s: %s" % (type(exc).__name__, exc))
        import types
        import glovebox_plain
        main = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = __builtins__
        sys.modules["__main__"] = main
        return glovebox_plain.PlainInterpreter(main.__dict__, channel)


def check_process(socket_fd):
    """What a fork would copy is what we mean it to copy."""
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        raise RuntimeError("%d threads after the imports" % len(threads))
    extra = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue  # The listing's own descriptor.
        if int(name) not in (0, 1, 2, socket_fd):
            extra.append("%s (%s)" % (name, target))
    if extra:
        raise RuntimeError("descriptors left open: " + ", ".join(extra))


def build(spec_fd):
    """Everything up to the freeze; returns what the kernel needs."""
    own = os.path.dirname(os.path.abspath(__file__))
    preload, environment = read_spec(spec_fd)
    import glovebox_grant
    glovebox_grant.single_threaded()
    set_environment(environment)

    import glovebox_frames
    import glovebox_immortal  # while our folder is on the path
    import glovebox_kernel
    import glovebox_streams
    import glovebox_warm
    channel = glovebox_frames.Channel()
    streams = glovebox_streams.Streams(channel)
    # The shell first: the inline backend ties itself to it when imported.
    interpreter = make_interpreter(channel, streams)
    set_path(own)
    preload_modules(preload)
    glovebox_warm.import_modules()
    streams.install()
    streams.watch_children()
    streams.order.muted = True
    glovebox_warm.run(interpreter)
    if "matplotlib.pyplot" in sys.modules:
        # Programs a cell starts have no shell to show figures in.
        os.environ.pop("MPLBACKEND", None)
    return glovebox_kernel.Kernel(channel, streams, interpreter)


def prepare(socket_fd, spec_fd):
    """Everything that can fail before the first session."""
    began = time.monotonic()
    kernel = build(spec_fd)
    kernel.prepare()
    gc.collect()
    immortal = sys.modules["glovebox_immortal"].everything()
    gc.freeze()
    gc.collect()  # Python's lists of free objects; plug.c takes their place.
    check_process(socket_fd)
    say("ready in %.2f s, %d modules, %d objects made immortal" % (
        time.monotonic() - began, len(sys.modules), immortal))
    return kernel


def main():
    socket_fd, spec_fd = int(sys.argv[1]), int(sys.argv[2])
    try:
        kernel = prepare(socket_fd, spec_fd)
    except BaseException as exc:
        # By now the streams may be a session's and silent.
        say("cannot start: %s: %s" % (type(exc).__name__, exc))
        os._exit(1)
    import _glovebox
    grant = _glovebox.zygote_serve(socket_fd)
    kernel.run(grant)


if __name__ == "__main__":
    main()
