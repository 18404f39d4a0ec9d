# SPDX-License-Identifier: Apache-2.0
"""Cases that hold for every kernel, with IPython and without."""
import os
import signal


class Cells:
    """Mixed into a harness.SessionCase."""

    # --- values, state, output -------------------------------------------

    def test_state_survives(self):
        self.run_cell("x = 40\ndef f(n):\n    return n + 2")
        self.assertEqual(self.value("f(x)"), "42")

    def test_last_expression_only(self):
        result = self.run_cell("1\n2\nx = 3")
        self.assertIsNone(result.result)
        self.assertEqual(result.events, [])

    def test_none_has_no_result(self):
        self.assertIsNone(self.run_cell("None").result)

    def test_empty_cells(self):
        for code in ("", " \n", "# a remark", "\n\n"):
            self.assertEqual(self.run_cell(code).events, [])

    def test_stdout_and_stderr_in_order(self):
        result = self.run_cell(
            "import sys\n"
            "for i in range(20):\n"
            "    print('o', i)\n    print('e', i, file=sys.stderr)")
        self.assertEqual("".join(v for _, v in result.events), "".join(
            "o %d\ne %d\n" % (i, i) for i in range(20)))

    def test_display_and_stdout_in_order(self):
        result = self.run_cell(
            "for i in range(5):\n    print(i)\n    display(i)")
        kinds = [k for k, _ in result.events]
        self.assertEqual([k for i, k in enumerate(kinds)
                          if i == 0 or kinds[i - 1] != k],
                         ["stdout", "display"] * 5)

    def test_partial_lines_come_live(self):
        seen = []
        self.run_cell("import time\nprint('now', end='')\ntime.sleep(1)",
                      on_event=lambda r: seen.append(r.stdout))
        self.assertIn("now", seen[0])

    def test_output_of_subprocess_and_descriptors(self):
        result = self.run_cell(
            "import os, subprocess\nprint('a')\n"
            "subprocess.run(['echo', 'b'])\nos.write(1, b'c\\n');\n"
            "print('d')")
        self.assertEqual(result.stdout, "a\nb\nc\nd\n")

    def test_print_is_like_the_builtin(self):
        result = self.run_cell(
            "import io, pickle\nprint(1, None, 'x', sep='-', end='!')\n"
            "print()\nf = io.StringIO()\nprint('a', 'b', file=f, sep=None)\n"
            "print(repr(f.getvalue()), pickle.loads(pickle.dumps(print)) "
            "is print, flush=True)")
        self.assertEqual(result.stdout, "1-None-x!\n'a b\\n' True\n")
        result = self.run_cell("print(1, sep=5)", 1)
        self.assertEqual(result.error["name"], "TypeError")

    def test_large_output_arrives_whole(self):
        result = self.run_cell("print('x' * 3_000_000)")
        self.assertEqual(len(result.stdout), 3_000_001)

    def test_threads_print_between_cells(self):
        self.run_cell(
            "import sys, threading, time\n"
            "def work():\n    time.sleep(0.2)\n    print('late')\n"
            "    print('later', file=sys.stderr)\n"
            "threading.Thread(target=work).start()")
        late = self.session.late_output()
        self.assertEqual((late.stdout, late.stderr), ("late\n", "later\n"))
        self.assertEqual(self.value("1 + 1"), "2")

    def test_top_level_await(self):
        self.run_cell("import asyncio\n"
                      "async def f():\n    await asyncio.sleep(0.01)\n"
                      "    return 7")
        self.assertEqual(self.value("await f()"), "7")
        self.run_cell("t = asyncio.get_running_loop().create_task(f())\n"
                      "await asyncio.sleep(0)")
        self.assertEqual(self.value("await t"), "7")
        self.assertEqual(self.value("asyncio.run(f())"), "7")
        self.assertEqual(self.value("await f()"), "7")

    def test_oversized_result_becomes_a_note(self):
        self.assertIn("too large to show", self.value("'x' * 17_000_000"))

    def test_surrogates(self):
        self.assertEqual(self.run_cell("print('\\ud800')").stdout,
                         "\\ud800\n")

    def test_main_is_the_namespace(self):
        self.assertEqual(self.value(
            "import pickle, sys\nclass P: pass\n"
            "sys.modules['__main__'].P is P and "
            "type(pickle.loads(pickle.dumps(P()))) is P"), "True")

    def test_process_pool(self):
        self.assertEqual(self.value(
            "import multiprocessing\ndef sq(x):\n    return x * x\n"
            "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
            "    got = pool.map(sq, [1, 2, 3])\ngot"), "[1, 4, 9]")

    # --- input -----------------------------------------------------------

    def test_input_says_it_cannot(self):
        for code in ("input('name? ')", "import sys; sys.stdin.readline()",
                     "import getpass; getpass.getpass()"):
            result = self.run_cell(code, 1, timeout=5)
            self.assertEqual(result.error["name"], "StdinUnavailableError")
            self.assertIn("no keyboard", result.error["message"])
            self.assertEqual(result.stdout + result.stderr, "")

    def test_debugger_does_not_hang(self):
        result = self.run_cell("breakpoint()\nx = 1", 1, timeout=5)
        self.assertEqual(result.error["name"], "BdbQuit")

    # --- errors ----------------------------------------------------------

    def test_error_is_readable(self):
        result = self.run_cell("def f(n):\n    return 1 / n\n\nf(0)", 1)
        self.assertEqual(result.error["name"], "ZeroDivisionError")
        self.assertEqual(result.error["message"], "division by zero")
        self.assertIn("Cell In[1], line 4", result.traceback)
        self.assertIn("----> 2     return 1 / n", result.traceback)
        self.assertNotIn("glovebox", result.traceback)
        self.assertNotIn("\x1b", result.traceback)

    def test_syntax_error_shows_the_place(self):
        result = self.run_cell("x = 1\ny = = 2", 1)
        self.assertEqual(result.error["name"], "SyntaxError")
        lines = result.error["traceback"]
        self.assertIn("Cell In[1], line 2", lines[0])
        self.assertEqual(lines[1].index("= 2"), lines[2].index("^"))

    def test_compile_error_runs_nothing(self):
        result = self.run_cell("print('no')\nreturn 5", 1)
        self.assertEqual(result.error["name"], "SyntaxError")
        self.assertEqual(result.stdout, "")

    def test_chained_errors(self):
        result = self.run_cell("try:\n    {}['k']\nexcept KeyError as e:\n"
                               "    raise ValueError('v') from e", 1)
        self.assertIn("direct cause", result.traceback)
        self.assertIn("KeyError: 'k'", result.traceback)
        self.assertEqual(result.error["traceback"][-1], "ValueError: v")

    def test_brief_traceback_has_the_users_frames(self):
        result = self.run_cell(
            "import json, json.decoder\n\ndef load(text):\n"
            "    return json.loads(text)\n\nload('{')", 1)
        brief = result.error["brief"].split("\n")
        self.assertEqual(brief[:4], [
            "Cell In[1], line 6", "----> 6 load('{')",
            "Cell In[1], line 4, in load(text)",
            "----> 4 return json.loads(text)"])
        self.assertRegex(brief[4], r"^\[\.\.\. \d+ frames left out \.\.\.\]$")
        self.assertIn("json/decoder.py:", brief[5])
        self.assertIn("JSONDecodeError: Expecting", brief[7])
        self.assertEqual(len(brief), 8, brief)
        self.assertGreater(result.traceback.count("json/"), 1)

    def test_brief_traceback_of_a_chain_is_one_line_each(self):
        result = self.run_cell(
            "try:\n    try:\n        {}['k' * 999]\n"
            "    except KeyError as e:\n        raise ValueError('v') from e\n"
            "except ValueError:\n    raise OSError('o')", 1)
        brief = result.error["brief"].split("\n")
        self.assertEqual(brief[:3], [
            "Cell In[1], line 7", "----> 7 raise OSError('o')", "OSError: o"])
        self.assertEqual(brief[3],
                         "While handling ValueError: v (Cell In[1], line 5)")
        self.assertRegex(brief[4], r"^Caused by KeyError: 'k+ … \d+ more "
                                   r"characters \(Cell In\[1\], line 3\)$")
        self.assertEqual(len(brief), 5)

    def test_brief_traceback_is_bounded(self):
        brief = self.run_cell("def f(n):\n    f(n + 1)\nf(0)",
                              1).error["brief"]
        self.assertIn("the same frame", brief)
        self.assertLess(len(brief.split("\n")), 12)
        brief = self.run_cell("raise ValueError('x' * 10**6)",
                              1).error["brief"]
        self.assertIn("999012 more characters", brief)
        self.assertLess(len(brief), 1200)
        self.run_cell("def g(n):\n    if n: exec('g(%d)' % (n - 1))\n"
                      "    else: 1 / 0")
        for depth in (3, 4, 30):
            brief = self.run_cell("g(%d)" % depth, 1).error["brief"]
            # A cell, and two frames for each level.
            count = sum(line.startswith(("Cell", "File"))
                        for line in brief.split("\n"))
            self.assertEqual(count, min(2 * depth + 2, 8))

    def test_exception_group_shows_its_parts(self):
        if self.value("import sys; sys.version_info >= (3, 11)") != "True":
            self.skipTest("no exception groups before Python 3.11")
        result = self.run_cell(
            "raise ExceptionGroup('g', [ValueError('a'), KeyError('b')])", 1)
        self.assertIn("ValueError: a", result.traceback)
        self.assertIn("KeyError: 'b'", result.traceback)
        self.assertTrue(result.error["brief"].endswith(
            "- ValueError: a\n- KeyError: 'b'"), result.error["brief"])

    def test_odd_exceptions(self):
        cells = {
            "class E(BaseException): pass\nraise E('x')": "E",
            "class E(Exception):\n    def __str__(self): raise E\n"
            "    __repr__ = __str__\nraise E": "E",
            "raise GeneratorExit": "GeneratorExit",
            "raise MemoryError": "MemoryError",
            "import asyncio; raise asyncio.CancelledError": "CancelledError",
            "def f(): f()\nf()": "RecursionError",
            "raise ValueError('x' * 10**7)": "ValueError",
        }
        for code, name in cells.items():
            with self.subTest(name=name):
                result = self.run_cell(code, 1)
                self.assertEqual(result.error["name"], name)
                self.assertLess(len(result.traceback), 66_000)
        self.assertEqual(self.value("1 + 1"), "2")

    # --- ends ------------------------------------------------------------

    def test_exit_ends_the_cell_and_keeps_variables(self):
        self.run_cell("import sys\nx = 5")
        for code in ("sys.exit()", "exit()", "quit(0)", "sys.exit(False)",
                     "raise SystemExit(256)"):
            with self.subTest(code=code):
                result = self.run_cell("print('in')\n%s\nprint('no')" % code)
                self.assertEqual(result.events, [("stdout", "in\n")])
                self.assertIsNone(result.error)
        for code, want in (("quit(3)", "exit status 3"),
                           ("sys.exit('words')", "words"),
                           ("raise SystemExit(300)", "exit status 44"),
                           ("sys.exit(-1)", "exit status 255")):
            with self.subTest(code=code):
                result = self.run_cell(code, 1)
                self.assertEqual(result.error["name"], "SystemExit")
                self.assertEqual(result.error["message"], want)
                self.assertEqual(result.error["brief"], "SystemExit: " + want)
                self.assertEqual(result.events, [])
        self.assertEqual(self.value("x"), "5")

    def test_exit_leaves_handlers_and_threads_alone(self):
        result = self.run_cell(
            "import atexit, threading, time\natexit.register(print, 'bye')\n"
            "threading.Thread(target=time.sleep, args=(60,)).start()\n"
            "exit(4)", 1, timeout=5)
        self.assertEqual(result.stdout, "")
        self.assertEqual(self.value("threading.active_count() > 1"), "True")

    def test_exit_in_a_coroutine(self):
        result = self.run_cell("import asyncio, sys\nx = 7\n"
                               "await asyncio.sleep(0)\nsys.exit(6)", 1)
        self.assertEqual(result.error["message"], "exit status 6")
        self.assertEqual(self.value("await asyncio.sleep(0, x)"), "7")

    def test_os_exit_ends_the_kernel(self):
        result = self.session.execute("import os; os._exit(7)")
        self.assertTrue(result.ended)
        self.assertIsNone(result.status)
        self.assertEqual(os.WEXITSTATUS(self.end()), 7)

    def test_crash_shows_where(self):
        result = self.session.execute("import os\nos.abort()")
        self.assertTrue(result.ended)
        self.assertIsNone(result.status)
        self.assertIn("Fatal Python error", result.stderr)
        self.assertEqual(os.WTERMSIG(self.end()), signal.SIGABRT)

    def test_closing_every_descriptor_ends_the_kernel(self):
        result = self.session.execute("import os; os.closerange(0, 4096)",
                                      timeout=5)
        self.assertTrue(result.ended)
        self.assertIsNone(result.status)

    # --- interrupts ------------------------------------------------------

    def test_interrupt_keeps_state(self):
        self.run_cell("import asyncio, subprocess, threading, time\nx = 5")
        for code in ("while True:\n    pass", "time.sleep(60)",
                     "await asyncio.sleep(60)",
                     "asyncio.run(asyncio.sleep(60))",
                     "subprocess.run(['sleep', '60'])",
                     "lock = threading.Lock(); lock.acquire(); lock.acquire()",
                     "class E(Exception):\n    def __str__(self):\n"
                     "        while True: pass\nraise E"):
            with self.subTest(code=code):
                self.interrupted(code)
        self.assertEqual(self.value("x"), "5")

    def test_interrupt_between_cells_is_nothing(self):
        self.run_cell("x = 5")
        self.session.interrupt()
        result = self.session.execute("x")
        if result.status == 1:  # It stayed pending and met this cell.
            self.assertEqual(result.error["name"], "KeyboardInterrupt")
        self.assertEqual(self.value("x"), "5")

    # --- cells that break things -----------------------------------------

    def test_wrapped_and_closed_streams(self):
        self.run_cell("import gc, io, sys\n"
                      "sys.stdout = io.TextIOWrapper(sys.stdout.buffer)\n"
                      "print('wrapped')")
        self.run_cell("sys.stdout = sys.__stdout__\ngc.collect();")
        result = self.run_cell("sys.stdout.close()\nprint('closed')")
        self.assertEqual(result.stdout, "closed\n")
        result = self.run_cell("sys.stdout.detach()\nprint('detached')")
        self.assertEqual(result.stdout, "detached\n")
        self.run_cell("del sys.stdout, sys.stderr")
        self.run_cell("import sys; sys.stdout = sys.__stdout__")
        self.assertEqual(self.run_cell("print('back')").stdout, "back\n")

    def test_replaced_stdout_is_the_users(self):
        self.run_cell("import io, sys\nsys.stdout = kept = io.StringIO()")
        self.assertEqual(self.run_cell("print('in')").stdout, "")
        self.run_cell("sys.stdout = sys.__stdout__")
        self.assertEqual(self.value("kept.getvalue()"), r"'in\n'")

    def test_closed_descriptors_come_back(self):
        self.session.execute("import os; os.close(1); os.close(2)")
        result = self.run_cell("import sys; print('o'); sys.stderr.write('e')")
        self.assertEqual((result.stdout, result.stderr), ("o\n", "e"))

    def test_damaged_builtins(self):
        self.session.execute(
            "import builtins\nold = dict(vars(builtins))\n"
            "for name in ('len', 'isinstance', 'print', 'open', 'str', "
            "'getattr', 'BaseException', 'type'):\n"
            "    delattr(builtins, name)")
        self.assertIsNotNone(self.session.execute("1 + 1").status)
        self.session.execute("vars(builtins).update(old)")
        self.assertEqual(self.value("len('abc')"), "3")

    def test_fork_that_comes_back(self):
        result = self.run_cell(
            "import os\npid = os.fork()\n"
            "if pid == 0:\n    print('child')\n    display('dropped')\n"
            "    raise SystemExit(9)\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
        self.assertEqual(result.stdout, "child\n9\n")
        self.assertEqual(result.displays, [])
        result = self.run_cell("if os.fork() == 0:\n    1 / 0\n"
                               "os.wait(); print('parent')")
        self.assertEqual(result.stdout, "parent\n")
        self.assertIn("ZeroDivisionError", result.stderr)

    def test_small_recursion_limit(self):
        self.run_cell("import sys; sys.setrecursionlimit(70)")
        result = self.run_cell("def f(): f()\nf()", 1)
        self.assertEqual(result.error["name"], "RecursionError")
        self.assertEqual(self.value("1 + 1"), "2")

    def test_removed_working_folder(self):
        self.run_cell("import os, tempfile\nd = tempfile.mkdtemp()\n"
                      "os.chdir(d)\nos.rmdir(d)")
        self.assertEqual(self.value("1 + 1"), "2")
        self.run_cell("1 / 0", 1)

    def test_signals_and_locale(self):
        self.run_cell("import locale, signal\n"
                      "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                      "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                      "locale.setlocale(locale.LC_ALL, 'C')")
        self.assertEqual(self.run_cell("print('é')").stdout, "é\n")

    # --- promises --------------------------------------------------------

    def test_Z2_sessions_draw_different_numbers(self):
        draw = ("import random, ssl, tempfile, uuid\n"
                "next(tempfile._get_candidate_names()), random.random(), "
                "random.Random().random(), ssl.RAND_bytes(8), uuid.uuid1(), "
                "uuid.uuid4(), random.getstate()[1][:3]")
        other = self.zygote.start()
        result = other.execute(draw)
        other.close()
        mine = eval(self.value(draw), {"UUID": str})
        yours = eval(result.result["text/plain"].decode(), {"UUID": str})
        for index, (one, two) in enumerate(zip(mine, yours)):
            self.assertNotEqual(one, two, "source %d" % index)

    def test_Z3_child_starts_from_a_known_state(self):
        self.assertEqual(self.value("import sys; sys.argv"), "['']")
        self.assertEqual(self.value("sys.path[0]"), "''")
        self.assertEqual(self.value(
            "[p for p in sys.path if 'glovebox' in p]"), "[]")
        self.assertEqual(self.value("__name__"), "'__main__'")
        self.assertEqual(self.value(
            "import os; sorted(n for n in globals() if n.startswith('f'))"),
            "[]")
        self.assertEqual(self.value(
            "import signal\n[signal.getsignal(signal.SIGINT) is "
            "signal.default_int_handler, "
            "signal.getsignal(signal.SIGTERM) == signal.SIG_DFL]"),
            "[True, True]")
        self.assertEqual(self.value("len(os.listdir('/proc/self/task'))"),
                         "1")

    def test_R5_cells_leak_no_descriptor(self):
        count = "import os; len(os.listdir('/proc/self/fd'))"
        self.value(count)
        before = self.value(count)
        for _ in range(50):
            self.session.execute("print(1)\n1 / 0")
        self.assertEqual(self.value(count), before)

    def test_grant_is_believed(self):
        session = self.zygote.start(cores=3)
        result = session.execute(
            "import multiprocessing, os\n"
            "print(os.cpu_count(), multiprocessing.cpu_count(), "
            "os.environ['OMP_NUM_THREADS'], os.environ['HOME'])")
        session.close()
        self.assertEqual(result.stdout, "3 3 3 /home/user\n")
