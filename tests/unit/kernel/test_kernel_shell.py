# SPDX-License-Identifier: Apache-2.0
"""Kernels on IPython, in the minimal image."""
import cells
import harness


class Shell(cells.Cells, harness.SessionCase):
    image = "minimal"

    # --- IPython's own ---------------------------------------------------

    def test_magics(self):
        self.assertEqual(self.value("%time 1 + 1"), "2")
        self.assertIn("per loop",
                      self.run_cell("%timeit -n5 -r1 1").stdout)
        self.assertEqual(self.run_cell("%%time\nx = 3\nprint(x)")
                         .stdout.split("\n")[0], "3")
        self.run_cell("%cd /usr")
        self.assertEqual(self.value("%pwd"), "'/usr'")
        self.assertEqual(self.value("pwd"), "'/usr'")
        self.assertEqual(self.value("pwd = 5\npwd"), "5")

    def test_unknown_magic(self):
        result = self.run_cell("%nosuch", 1)
        self.assertEqual(result.error["name"], "UsageError")
        self.assertEqual(len(result.error["traceback"]), 1)

    def test_shell_escape(self):
        result = self.run_cell("print('a')\n!echo b; echo c >&2\nprint('d')")
        self.assertEqual(result.stdout, "a\nb\nd\n")
        self.assertEqual(result.stderr, "c\n")
        self.run_cell("!exit 3")
        self.assertEqual(self.value("_exit_code"), "3")
        self.run_cell("word = 'hello'")
        self.assertEqual(self.run_cell("!echo {word} $word").stdout,
                         "hello hello\n")
        self.assertEqual(self.value("x = !echo one; echo two\nlist(x)"),
                         "['one', 'two']")

    def test_C10_shell_escape_has_no_terminal(self):
        result = self.run_cell("!test -t 0 || test -t 1 || test -t 2 || "
                               "echo none; cat")
        self.assertEqual(result.stdout, "none\n")

    def test_bash_cells(self):
        result = self.run_cell("%%bash\nfor i in 1 2; do echo $i; done\n"
                               "echo e >&2")
        self.assertEqual((result.stdout, result.stderr), ("1\n2\n", "e\n"))
        result = self.run_cell("%%bash\nexit 5", 1)
        self.assertEqual(result.error["name"], "CalledProcessError")
        long = "%%bash\n" + "# filler\n" * 20_000 + "echo end"
        self.assertEqual(self.run_cell(long).stdout, "end\n")

    def test_shell_escape_interrupt(self):
        self.run_cell("x = 1")
        self.interrupted("!sleep 60")
        self.interrupted("%%bash\nsleep 60")
        self.interrupted("!trap '' INT; sleep 60", 0.5)
        self.assertEqual(self.value("x"), "1")

    def test_capture(self):
        self.assertEqual(self.run_cell(
            "%%capture c\nprint('p')\n!echo s\ndisplay(5)").events, [])
        self.assertEqual(self.value("c.stdout, len(c.outputs)"),
                         r"('p\ns\n', 1)")

    def test_history_and_output_cache(self):
        self.run_cell("1 +", 1)
        self.run_cell("40 + 2")
        self.assertEqual(self.value("_, __, Out[2], _2, In[1], In[2], _i2"),
                         "(42, '', 42, 42, '1 +', '40 + 2', '40 + 2')")
        self.run_cell("_ = 'mine'")
        self.run_cell("7")
        self.assertEqual(self.value("print(_)\n_5"), "7")

    def test_semicolon_hushes(self):
        self.assertIsNone(self.run_cell("5;").result)
        self.assertIsNone(self.run_cell("5;  # really").result)
        self.assertEqual(self.value("'a;'"), "'a;'")
        self.assertEqual(self.value("5 # ;"), "5")

    def test_interactivity_all(self):
        self.run_cell("from IPython.core.interactiveshell import "
                      "InteractiveShell as S\n"
                      "S.ast_node_interactivity = 'all'")
        result = self.run_cell("1\nprint('x')\n2")
        self.assertEqual(result.events, [
            ("display", {"text/plain": b"1"}), ("stdout", "x\n"),
            ("result", {"text/plain": b"2"})])

    def test_pasted_prompts_and_indents(self):
        self.assertEqual(self.value(">>> x = 1\n>>> x"), "1")
        self.assertEqual(self.value("In [1]: y = 2\n\nIn [2]: y"), "2")
        self.assertEqual(self.value("  z = 3\n  z"), "3")

    def test_help_is_shown(self):
        display = self.run_cell("len?").displays[0]
        self.assertIn(b"number of items", display["text/plain"])

    def test_display_kinds(self):
        result = self.run_cell(
            "from IPython.display import *\n"
            "display(HTML('<b>'), SVG('<svg></svg>'), Markdown('*m*'),"
            " Latex('$x$'), JSON({'a': float('nan')}), Javascript('1'))")
        for display, mime in zip(result.displays, (
                "text/html", "image/svg+xml", "text/markdown", "text/latex",
                "application/json", "application/javascript")):
            self.assertIn(mime, display)
        self.assertEqual(result.displays[4]["application/json"],
                         b'{"a": null}')

    def test_display_id_update_and_clear(self):
        result = self.run_cell(
            "from IPython.display import clear_output\n"
            "h = display('one', display_id='k')\n"
            "h.update('two')\nclear_output(wait=True)\nprint('three')")
        ids = [d["application/x.glovebox.display-id"]
               for d in result.displays]
        self.assertEqual(ids, [b"k", b"k"])
        self.assertEqual(result.events[-2:],
                         [("clear", b"\1"), ("stdout", "three\n")])

    def test_registered_formatter_for_a_simple_type(self):
        self.run_cell("f = get_ipython().display_formatter.formatters\n"
                      "f['text/html'].for_type(int, lambda n: f'<i>{n}')")
        self.assertEqual(self.run_cell("5").result["text/html"], b"<i>5")

    def test_nested_cells_and_scripts(self):
        self.run_cell("%%writefile /tmp/s.py\nimport sys\nv = 5\n"
                      "if len(sys.argv) > 1: raise KeyError(v)")
        self.run_cell("%run /tmp/s.py")
        self.assertEqual(self.value("v"), "5")
        result = self.run_cell("%run /tmp/s.py x", 1)
        self.assertEqual(result.error["name"], "KeyError")
        self.assertIn("/tmp/s.py:3", result.traceback)
        result = self.run_cell("get_ipython().run_cell('1/0')\nprint('on')")
        self.assertIn("ZeroDivisionError", result.stderr)
        self.assertEqual(result.stdout, "on\n")
        self.run_cell("%%writefile /tmp/e.py\nimport sys; sys.exit(3)")
        self.assertIn("SystemExit: 3", self.run_cell("%run /tmp/e.py").stderr)

    def test_hooks_and_transformers(self):
        self.run_cell(
            "ip = get_ipython(); seen = []\n"
            "ip.events.register('pre_run_cell', lambda info: "
            "seen.append(info.raw_cell))\n"
            "ip.events.register('post_run_cell', lambda r: "
            "seen.append(type(r.error_in_exec).__name__))")
        self.run_cell("1 / 0", 1)
        self.assertIn("'1 / 0', 'ZeroDivisionError'", self.value("seen"))
        self.run_cell("ip.input_transformers_post.append("
                      "lambda lines: [l.replace('dog', '1') for l in lines])")
        self.assertEqual(self.value("dog + dog"), "2")

    def test_other_traceback_modes(self):
        self.run_cell("%xmode Minimal")
        self.assertEqual(self.run_cell("1/0", 1).error["traceback"],
                         ["ZeroDivisionError: division by zero"])
        self.run_cell("%xmode Verbose")
        self.assertIn("Cell In[4]", self.run_cell("1/0", 1).traceback)

    def test_patched_shell(self):
        self.session.execute(
            "ip = get_ipython()\n"
            "type(ip).transform_cell = None\nip.display_formatter = None\n"
            "ip.events = None\nip.history_manager = None")
        self.assertIsNotNone(self.session.execute("1 + 1").status)
        self.assertIsNotNone(self.session.execute("%time 1").status)

    def test_no_files_are_left(self):
        self.run_cell("1/0", 1)
        self.assertEqual(self.value(
            "import os; os.listdir(os.path.expanduser('~'))"), "[]")


if __name__ == "__main__":
    harness.main()
