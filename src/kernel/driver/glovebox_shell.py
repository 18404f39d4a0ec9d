# SPDX-License-Identifier: Apache-2.0
"""Cells on IPython's shell: magics, `!`, rich display, known tracebacks.

Made in the zygote, runs in the kernel process. Shell is InteractiveShell
without files, threads, terminal or colours. ShellInterpreter takes a shorter
way through it than IPython does: a cell that is plain Python is parsed once
and run, only the rest goes through IPython's transformers.
"""
import atexit
import builtins
import os
import re
import subprocess
import sys
import types
import warnings

import IPython
from IPython.core import page
from IPython.core.error import UsageError
from IPython.core.history import HistoryManager
from IPython.core.interactiveshell import (ExecutionInfo, ExecutionResult,
                                           InteractiveShell)
from IPython.core.profiledir import ProfileDir
from traitlets import observe
from traitlets.config import Config

import glovebox_cell
import glovebox_display
import glovebox_traceback

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

INTERRUPT_SECONDS = 0.5
ARGUMENT_MAX = 100_000  # bytes of a script passed on a command line

_WORD = re.compile(r"\s*([^\W\d]\w*)")


class MemoryDB(dict):
    """What IPython keeps in files of its profile (%store, %bookmark)."""

    def keys(self, globpat=None):
        if globpat is None:
            return list(super().keys())
        import fnmatch
        return fnmatch.filter(super().keys(), globpat)

    def uncache(self, *items):
        pass


class NoProfile(ProfileDir):
    """A profile that is a name only; no folder is made for it."""

    @observe("location")
    def _location_changed(self, change):
        pass


class Shell(InteractiveShell):
    """See the head of this file."""

    channel = None
    streams = None
    interpreter = None

    @observe("ipython_dir")
    def _ipython_dir_changed(self, change):
        pass

    def init_ipython_dir(self, ipython_dir):
        self.ipython_dir = os.path.join(os.path.expanduser("~"), ".ipython")

    def init_profile_dir(self, profile_dir):
        self.profile_dir = NoProfile(location=self.ipython_dir)

    def init_virtualenv(self):
        pass

    def init_history(self):
        self.history_manager = HistoryManager(shell=self, parent=self,
                                              enabled=False)
        self.configurables.append(self.history_manager)

    def init_completer(self):
        # Nobody types here, and the machinery is large.
        self.Completer = None

    def init_display_formatter(self):
        self.display_formatter = glovebox_display.Formatter(parent=self)
        self.configurables.append(self.display_formatter)

    def init_display_pub(self):
        self.display_pub = glovebox_display.Publisher(parent=self, shell=self)
        self.display_pub.channel = self.channel
        self.configurables.append(self.display_pub)

    def init_displayhook(self):
        self.displayhook_class = glovebox_display.Hook
        super().init_displayhook()
        self.displayhook.channel = self.channel

    def enable_gui(self, gui=None):
        pass

    def ask_exit(self):
        raise SystemExit(0)

    def _showtraceback(self, etype, evalue, stb):
        """Tracebacks shown along the way, not the cell's own end."""
        print(self.InteractiveTB.stb2text(stb), file=sys.stderr)

    def safe_execfile(self, fname, *where, **kwargs):
        """%run: what a script raises is what the cell raises."""
        kwargs["raise_exceptions"] = True
        try:
            super().safe_execfile(fname, *where, **kwargs)
        except SystemExit as exc:
            # The end of a script is not the end of the session.
            if exc.code:
                print("SystemExit: %s" % exc.code, file=sys.stderr)

    def system(self, cmd):
        """`!cmd`: the command writes to our own pipes."""
        command = self.var_expand(cmd, depth=1)
        code = run_process([shell_path(), "-c", command], self.streams)
        # 130 from a shell is a death by signal 2; IPython says -2.
        self.user_ns["_exit_code"] = 128 - code if code > 128 else code

    system_piped = system_raw = system


def shell_path():
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def run_process(command, streams, text=None):
    """Runs a command to its end and returns its exit code. Its output goes
    where ours goes, to pipes, never to a terminal."""
    own = sys.stdout is streams.out and sys.stderr is streams.err
    pipe = None if own else subprocess.PIPE
    streams.flush()
    streams.order.settle()
    process = subprocess.Popen(
        command, stdout=pipe, stderr=pipe,
        stdin=subprocess.DEVNULL if text is None else subprocess.PIPE)
    try:
        out, err = process.communicate(text)
    except KeyboardInterrupt:
        # It reaches the whole group; whoever ignores it is ended.
        try:
            process.wait(INTERRUPT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # A new one: where we waited is of no interest.
        raise KeyboardInterrupt from None
    if not own:
        sys.stdout.write(out.decode("utf-8", "backslashreplace"))
        sys.stderr.write(err.decode("utf-8", "backslashreplace"))
    streams.order.settle()
    return process.returncode


def add_script_magics(shell):
    """%%bash and %%sh without options run like `!`, with no helper thread."""
    def make(name):
        known = shell.find_cell_magic(name)

        def script(line, cell):
            if line.strip():
                return known(line, cell)
            data = cell.encode("utf-8", "surrogateescape")
            if len(data) < ARGUMENT_MAX:
                code = run_process([name, "-c", cell], shell.streams)
            else:
                code = run_process([name], shell.streams, data)
            if code:
                raise subprocess.CalledProcessError(code, name)
            return None

        script.__doc__ = "Run the cell with %s." % name
        shell.register_magic_function(script, "cell", name)

    for name in ("bash", "sh"):
        make(name)


def make_shell(channel, streams):
    """The one shell of the process, with a fresh __main__ to run cells in."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    Shell.channel, Shell.streams = channel, streams
    from IPython.core import interactiveshell
    if hasattr(interactiveshell, "PickleShareDB"):
        interactiveshell.PickleShareDB = lambda path: MemoryDB()
    config = Config()
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.xmode = "Context"
    config.InteractiveShell.autocall = 0
    config.InteractiveShell.banner1 = ""
    config.HistoryManager.enabled = False
    shell = Shell.instance(config=config, user_module=main)
    sys.modules["__main__"] = main
    atexit.unregister(shell.atexit_operations)
    shell.set_hook("show_in_pager", page.as_hook(page.display_page), 90)
    # Agents ask it for the list of packages and take what it warns of for
    # part of the answer.
    warnings.filterwarnings("ignore", message="pkg_resources is deprecated")
    add_script_magics(shell)
    # Both stay for good: cells are all this process runs.
    shell.builtin_trap.__enter__()
    shell.display_trap.__enter__()
    builtins.exit = builtins.quit = sys.exit
    for name in ("exit", "quit", "open"):
        # IPython's exit asks a terminal; its open() guards descriptors 0–2.
        main.__dict__.pop(name, None)
    glovebox_traceback.hide_package(IPython)
    return shell


class ShellInterpreter(glovebox_cell.Interpreter):
    """See glovebox_cell.Interpreter."""

    def __init__(self, channel, streams):
        self.shell = shell = make_shell(channel, streams)
        super().__init__(shell.user_ns)
        shell.interpreter = shell.displayhook.interpreter = self
        self.hushed = False
        self.info = None
        self.magics = shell.magics_manager.magics["line"]
        self.transformers = self._count_transformers()
        self.keep_pristine()

    @property
    def interactivity(self):
        return self.shell.ast_node_interactivity

    # --- from text to a tree ---------------------------------------------

    def _count_transformers(self):
        manager = self.shell.input_transformer_manager
        return (len(manager.cleanup_transforms), len(manager.line_transforms),
                len(manager.token_transformers),
                len(self.shell.input_transformers_post))

    def _may_be_python(self, raw):
        """False for what is valid Python and still means something else to
        IPython: a magic without its %, a pasted prompt."""
        if raw.startswith("In ["):
            return False
        if self._count_transformers() != self.transformers:
            return False
        if "\n" in raw.rstrip():
            return True
        word = _WORD.match(raw)
        if word is None or word[1] not in self.magics:
            return True
        return (not self.shell.automagic or word[1] in self.namespace
                or hasattr(builtins, word[1]))

    def parse(self, raw):
        self.number = self.shell.execution_count
        if self._may_be_python(raw):
            try:
                return super().parse(raw)
            except SyntaxError:
                pass  # Magics are; if it is an error it comes up again.
        source = self.shell.transform_cell(raw)
        return super().parse(source)

    def remember(self, raw, source):
        shell = self.shell
        history = shell.history_manager
        history.input_hist_parsed.append(source.rstrip("\n"))
        history.input_hist_raw.append(raw.rstrip("\n"))
        names = self.namespace
        names["_iii"] = names.get("_ii", "")
        names["_ii"] = names.get("_i", "")
        names["_i"] = names["_i%d" % self.number] = raw
        last = source.rstrip()
        last = last[last.rfind("\n") + 1:]
        self.hushed = ";" in last and \
            shell.displayhook.semicolon_at_end_of_expression(source)

    def to_tree(self, source, name):
        tree = super().to_tree(source, name)
        if self.shell.ast_transformers:
            tree = self.shell.transform_ast(tree)
        return tree

    def name_cell(self, source):
        name = super().name_cell(source)
        self.shell.compile._filename_map[name] = self.number
        return name

    # --- around the run --------------------------------------------------

    def _trigger(self, event, *args):
        if self.shell.events.callbacks[event]:
            self.shell.events.trigger(event, *args)

    def run(self, raw):
        callbacks = self.shell.events.callbacks
        self._trigger("pre_execute")
        self.info = None
        if callbacks["pre_run_cell"] or callbacks["post_run_cell"]:
            self.info = ExecutionInfo(raw, True, False, True, None)
            self._trigger("pre_run_cell", self.info)
        super().run(raw)

    def finish(self):
        shell = self.shell
        shell.execution_count = self.number
        if shell.display_formatter.shown:
            shell.display_formatter.forget_figures()
        self._trigger("post_execute")
        if self.info is not None and shell.events.callbacks["post_run_cell"]:
            result = ExecutionResult(self.info)
            result.error_in_exec = sys.exc_info()[1]
            self._trigger("post_run_cell", result)
        shell.display_formatter.shown.clear()
        self.hushed = False

    def reset(self):
        super().reset()
        shell = self.shell
        shell.execution_count = 1
        shell.compile._filename_map.clear()
        history = shell.history_manager
        history.input_hist_parsed[:] = history.input_hist_raw[:] = [""]
        history.output_hist.clear()
        history.output_hist_reprs.clear()
        history.dir_hist[:] = [os.getcwd()]
        hook = shell.displayhook
        hook._ = hook.__ = hook.___ = ""
        shell.last_execution_result = None

    # --- tracebacks ------------------------------------------------------

    def special_lines(self, exc):
        shell = self.shell
        if isinstance(exc, UsageError):
            return ["UsageError: %s" % exc]
        if hasattr(exc, "_render_traceback_"):
            return "\n".join(exc._render_traceback_()).split("\n")
        if shell.InteractiveTB.mode == "Context":
            return None
        # The user asked for another form with %xmode.
        blocks = shell.InteractiveTB.structured_traceback(
            type(exc), exc, exc.__traceback__, tb_offset=0)
        return "\n".join(blocks).rstrip("\n").split("\n")
