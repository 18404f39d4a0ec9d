# SPDX-License-Identifier: Apache-2.0
"""The driver's parts by themselves: payloads, limits, splitting, streams."""
import ast
import importlib.util
import io
import json
import os
import sys
import tempfile
import unittest

import harness

sys.path[:0] = [harness.DRIVER, os.path.join(harness.HERE, "double")]

import glovebox_brief  # noqa: E402
import glovebox_cell  # noqa: E402
import glovebox_errors  # noqa: E402
import glovebox_frames  # noqa: E402
import glovebox_immortal  # noqa: E402
import glovebox_input  # noqa: E402
import glovebox_plain  # noqa: E402
import glovebox_streams  # noqa: E402
import glovebox_surround  # noqa: E402
import glovebox_traceback  # noqa: E402


def encode(**bundle):
    names = {"plain": "text/plain", "png": "image/png",
             "json": "application/json", "html": "text/html"}
    return dict(glovebox_frames.encode_bundle(
        {names.get(key, key): value for key, value in bundle.items()}))


class Frames(unittest.TestCase):
    def test_pairs_round_trip(self):
        items = [("text/plain", b"x"), ("é", b""), ("b", bytes(300))]
        self.assertEqual(
            harness.unpack_pairs(glovebox_frames.pairs(items)), items)

    def test_encode_binary_from_base64_and_bytes(self):
        self.assertEqual(encode(png="AAEC")["image/png"], b"\0\1\2")
        self.assertEqual(encode(png=b"\0\1\2")["image/png"], b"\0\1\2")

    def test_encode_json_is_always_json(self):
        for value in ({"a": [1, None]}, "text", [float("nan")],
                      {"x": float("inf"), 1: object}, {1, 2}):
            json.loads(encode(json=value)["application/json"],
                       parse_constant=self.fail)

    def test_encode_surrogates_are_shown(self):
        self.assertEqual(encode(plain="a\ud800")["text/plain"], b"a\\ud800")

    def test_encode_bad_keys_are_dropped(self):
        bundle = {"": 1, 5: "x", "k" * 300: "x", "text/plain": "y"}
        self.assertEqual(glovebox_frames.encode_bundle(bundle),
                         [("text/plain", b"y")])

    def test_encode_many_keys_are_limited(self):
        bundle = {"x/%d" % i: "v" for i in range(1000)}
        self.assertLess(len(glovebox_frames.encode_bundle(bundle)),
                        glovebox_frames.PAIRS_MAX)

    def test_fit_at_and_above_the_frame_limit(self):
        fits = glovebox_frames._ROOM
        self.assertNotIn("text/plain", encode(html="x" * fits))
        items = encode(html="x" * (fits + 1), plain="short")
        self.assertNotIn("text/html", items)
        self.assertIn(b"text/html of 15.9 MiB is too large",
                      items["text/plain"])
        self.assertTrue(items["text/plain"].startswith(b"short\n"))

    def test_fit_keeps_the_head_of_a_long_text(self):
        items = encode(plain="y" * (20 << 20))
        self.assertTrue(items["text/plain"].startswith(b"yyyy"))
        self.assertLess(len(items["text/plain"]), 2 << 20)


class Errors(unittest.TestCase):
    def describe(self, exc):
        try:
            raise exc
        except BaseException as caught:
            return glovebox_errors.describe(caught)

    def test_cap_keeps_head_and_tail(self):
        lines = glovebox_errors.cap(["line %d" % i for i in range(9999)])
        self.assertLessEqual(len(lines), glovebox_errors.LINES_MAX + 1)
        self.assertEqual(lines[0], "line 0")
        self.assertEqual(lines[-1], "line 9998")

    def test_cap_bytes(self):
        lines = glovebox_errors.cap(["é" * 5000] * 500)
        self.assertLessEqual(sum(len(line.encode()) for line in lines),
                             glovebox_errors.TOTAL_MAX)

    def test_cap_removes_colours(self):
        self.assertEqual(glovebox_errors.cap(["\x1b[31mred\x1b[0m"]), ["red"])

    def test_describe_long_message(self):
        name, text, lines, _ = self.describe(ValueError("x" * 10_000_000))
        self.assertEqual(name, "ValueError")
        self.assertLess(len(text), 20_000)
        self.assertLess(sum(map(len, lines)), 70_000)

    def test_describe_broken_str(self):
        class Broken(Exception):
            def __str__(self):
                raise RuntimeError

            __repr__ = __str__

        name, text, lines, _ = self.describe(Broken())
        self.assertEqual(name, "Broken")
        self.assertIn("str() failed", text)
        self.assertTrue(lines)

    def test_describe_str_that_is_no_string(self):
        class Odd(Exception):
            def __str__(self):
                return 5

        self.assertIn("str() failed", self.describe(Odd())[1])

    def test_describe_endless_chain(self):
        first, second = ValueError("first"), ValueError("second")
        first.__cause__, second.__cause__ = second, first
        lines = self.describe(first)[2]
        self.assertEqual(lines[-1], "ValueError: first")

    def test_lines_read_like_python(self):
        try:
            {}["key"]
        except KeyError as exc:
            exc.__traceback__ = glovebox_traceback.clean(exc.__traceback__)
            text = "\n".join(glovebox_traceback.lines(exc))
        self.assertRegex(text, r"-+> \d+ +\{\}\[\"key\"\]")
        self.assertTrue(text.endswith("KeyError: 'key'"))


class Splitting(unittest.TestCase):
    def modes(self, source, interactivity="last_expr"):
        body = ast.parse(source).body
        return [mode for _, mode in glovebox_cell.split(body, interactivity)]

    def test_split_modes(self):
        self.assertEqual(self.modes(""), [])
        self.assertEqual(self.modes("x = 1"), ["exec"])
        self.assertEqual(self.modes("1"), ["single"])
        self.assertEqual(self.modes("x = 1\nx"), ["exec", "single"])
        self.assertEqual(self.modes("1\nx = 1"), ["exec"])
        self.assertEqual(self.modes("1\n2", "all"), ["single"] * 2)
        self.assertEqual(self.modes("1\n2", "none"), ["exec"])
        self.assertEqual(self.modes("x = 1", "last_expr_or_assign"),
                         ["exec", "single"])


class Streams(unittest.TestCase):
    def setUp(self):
        self.channel = glovebox_frames.Channel()
        self.order = glovebox_streams.Order(self.channel)
        self.read, self.write = os.pipe()
        pipe = glovebox_streams.Pipe(self.write, self.order)
        self.text = glovebox_streams.Text(pipe, "<stdout>")

    def tearDown(self):
        os.close(self.read)
        os.close(self.write)

    def test_write_is_not_held_back(self):
        print("no newline", end="", file=self.text)
        self.assertEqual(os.read(self.read, 100), b"no newline")

    def test_write_more_than_a_pipe_holds_without_blocking_mode(self):
        os.set_blocking(self.write, False)
        size = 1 << 20
        pid = os.fork()
        if pid == 0:
            self.text.write("x" * size)
            os._exit(0)
        got = 0
        while got < size:
            got += len(os.read(self.read, 1 << 16))
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_close_and_detach_leave_the_stream_alive(self):
        wrapper = io.TextIOWrapper(self.text.detach(), "utf-8")
        wrapper.close()
        del wrapper
        self.text.close()
        self.text.write("alive")
        self.assertEqual(os.read(self.read, 100), b"alive")

    def test_stdin_refuses_at_once(self):
        keyboard = glovebox_input.Keyboard(glovebox_frames.Channel())
        stdin = glovebox_input.Stdin(keyboard)
        for read in (stdin.read, stdin.readline, stdin.readlines,
                     lambda: next(stdin), stdin.buffer.read,
                     lambda: keyboard.line("name? ")):
            with self.assertRaisesRegex(EOFError, "no keyboard"):
                read()


class Immortal(unittest.TestCase):
    """With a double that remembers what it was given and changes nothing."""

    def everything(self):
        known = {}

        def immortalize(objects):
            fresh = [o for o in objects if id(o) not in known]
            known.update((id(o), o) for o in fresh)
            return fresh

        real = glovebox_immortal._glovebox.immortalize
        possible = glovebox_immortal.possible
        glovebox_immortal._glovebox.immortalize = immortalize
        glovebox_immortal.possible = lambda: True
        try:
            return glovebox_immortal.everything(), known
        finally:
            glovebox_immortal._glovebox.immortalize = real
            glovebox_immortal.possible = possible

    def test_constants_are_reached_however_deep_the_function(self):
        def outer():
            def inner():
                return (12345.5, ("far", (67890.25,)))
            return inner

        count, known = self.everything()
        inner = next(c for c in outer.__code__.co_consts
                     if hasattr(c, "co_consts"))
        self.assertGreaterEqual(count, len(known))
        for constant in (inner, inner.co_consts, *inner.co_consts):
            self.assertIn(id(constant), known)

    def test_methods_of_classes_written_in_c_are_reached(self):
        _, known = self.everything()
        self.assertIn(id(vars(str)["join"]), known)

    def test_what_runs_is_left_alone(self):
        generator = (i for i in (1, 2))
        _, known = self.everything()
        self.assertNotIn(id(generator), known)
        self.assertNotIn(id(sys._getframe()), known)


class PlainBundles(unittest.TestCase):
    def test_bundle_of_failing_representation(self):
        class Odd:
            def _repr_html_(self):
                raise ValueError

            def _repr_mimebundle_(self, include=None, exclude=None):
                return {"x/y": "z"}, {}

        bundle = glovebox_plain.bundle_of(Odd())
        self.assertEqual(bundle["x/y"], "z")
        self.assertNotIn("text/html", bundle)


class Briefs(unittest.TestCase):
    """The text of displays whose own text does not say what they show."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        known, glovebox_brief.FOLDER = glovebox_brief.FOLDER, folder.name
        self.addCleanup(setattr, glovebox_brief, "FOLDER", known)
        self.files = glovebox_brief.Files()

    def brief(self, bundle):
        return glovebox_brief.complete(bundle, self.files).get(
            glovebox_brief.BRIEF)

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def test_text_that_says_it_is_left_alone(self):
        for bundle in ({"text/plain": "5"},
                       {"text/plain": "plain r", "text/html": "<i>r</i>"},
                       {"text/plain": "<Figure size 640x480 with 1 Axes>",
                        "image/png": b"x"},
                       {"text/plain": "own", "application/vnd.x+json": {}},
                       {"image/svg+xml": "<svg/>"}, {7: 8}):
            self.assertIs(glovebox_brief.complete(bundle, self.files), bundle)
        self.assertEqual(os.listdir(self.folder), [])

    def test_html_is_read_as_text(self):
        plain = {"text/plain": "<IPython.core.display.HTML object>"}
        for page, want in (
                ("<b>h</b>ello &amp; &lt;you&gt;", "hello & <you>"),
                ("<p>one</p><p>two</p>", "one\ntwo"),
                ("<ul><li>a<li>b</ul>", "- a\n- b"),
                ("<style>p {}</style><p>seen</p>", "seen"),
                ("<p>a\n  b</p><pre>if x:\n    y</pre>", "a b\nif x:\n    y"),
                ("<table><tr><th></th><th>a</th></tr>"
                 "<tr><th>0</th><td>1</td></tr></table>", "| a\n0 | 1"),
                ("<style>p {}</style>", None)):
            self.assertEqual(self.brief({**plain, "text/html": page}), want)
        self.assertEqual(self.brief({"text/html": "<i>x</i>"}), "x")
        self.assertEqual(os.listdir(self.folder), [])

    def test_text_is_cut_at_the_limit(self):
        most = glovebox_brief.TEXT_MAX
        for size, want in ((most - 1, None), (most, None),
                           (most + 1, "\n… 1 more characters")):
            text = self.brief({"text/html": "<p>%s</p>" % ("x" * size)})
            self.assertEqual(text, "x" * min(size, most) + (want or ""))

    def test_other_forms(self):
        plain = {"text/plain": "<x.Y object at 0x7f00>"}
        self.assertEqual(self.brief({**plain, "text/markdown": "*m*"}), "*m*")
        self.assertEqual(self.brief({**plain, "text/latex": "$x$"}), "$x$")
        self.assertEqual(self.brief({**plain, "application/json": {"a": 1}}),
                         '{"a": 1}')
        self.assertIsNone(self.brief({**plain, "a/b": "c"}))

    def test_active_page_is_saved(self):
        page = "<p>Map</p><iframe src='x'></iframe>"
        self.assertEqual(self.brief({"text/html": page}),
                         "[page saved as output-1.html]\nMap")
        self.assertEqual(self.read("output-1.html"), page)
        most = glovebox_brief.HTML_MAX
        self.assertEqual(self.brief({"text/html": "x" * most})[:4], "xxxx")
        self.assertEqual(self.brief({"text/html": "x" * (most + 1)}),
                         "[page saved as output-2.html]")

    def test_plotly_figure_is_saved(self):
        figure = {"data": [{"type": "bar", "y": [1]}, {"y": [2]}],
                  "layout": {"title": {"text": "Sales\n2026"}}}
        bundle = {"text/plain": "Figure({...})", glovebox_brief.PLOTLY: figure}
        suffix = "html" if importlib.util.find_spec("plotly") else "json"
        with open(os.path.join(self.folder, "figure-1." + suffix), "w",
                  encoding="utf-8") as file:
            file.write("mine")
        self.assertEqual(
            self.brief(bundle), '[interactive figure "Sales 2026" (bar, '
            'scatter) saved as figure-2.%s]' % suffix)
        self.assertEqual(self.read("figure-1." + suffix), "mine")
        self.assertIn("Sales", self.read("figure-2." + suffix))

    def test_one_cell_saves_so_many_files(self):
        most = glovebox_brief.FILES_MAX

        def brief(number):
            return self.brief({"text/html": "<canvas id=%d />" % number})

        for number in range(1, most + 1):
            self.assertEqual(brief(number),
                             "[page saved as output-%d.html]" % number)
        self.assertEqual(brief(most + 1),
                         "[page not saved: one cell saves at most 5]")
        self.assertEqual(len(os.listdir(self.folder)), most)
        self.files.begin()
        self.assertEqual(brief(most + 1), "[page saved as output-6.html]")

    def test_same_page_is_saved_once(self):
        bundle = {"text/html": "<canvas></canvas>"}
        for _ in range(glovebox_brief.FILES_MAX + 1):
            self.assertEqual(self.brief(bundle),
                             "[page saved as output-1.html]")
        os.unlink(os.path.join(self.folder, "output-1.html"))
        self.assertEqual(self.brief(bundle), "[page saved as output-1.html]")
        self.assertEqual(self.read("output-1.html"), bundle["text/html"])

    def test_what_cannot_be_saved_says_so(self):
        glovebox_brief.FOLDER = os.path.join(self.folder, "not", "there")
        self.assertEqual(self.brief({"text/html": "<svg></svg>"}),
                         "[page not saved: No such file or directory]")


class Surround(unittest.TestCase):
    def test_environment_sets_and_takes_away(self):
        glovebox_surround.set_environment(b"GB_A=1\nGB_B=x=y z\n")
        self.assertEqual(os.environ["GB_A"], "1")
        self.assertEqual(os.environ["GB_B"], "x=y z")
        glovebox_surround.set_environment(b"GB_A\nGB_B\nGB_NOT\n\n")
        self.assertNotIn("GB_A", os.environ)
        self.assertNotIn("GB_B", os.environ)

    def test_installed_packages_are_found_once_they_are_there(self):
        path, before = sys.path, list(sys.path)
        try:
            with tempfile.TemporaryDirectory() as home:
                installed = glovebox_surround.Installed(home)
                installed.look()
                self.assertEqual(sys.path, before)
                os.makedirs(installed.folder)
                with open(os.path.join(installed.folder, "gb_new.py"),
                          "w", encoding="utf-8") as file:
                    file.write("value = 7\n")
                installed.look()
                self.assertIn(installed.folder, sys.path)
                self.assertEqual(__import__("gb_new").value, 7)
                installed.look()
                self.assertEqual(sys.path.count(installed.folder), 1)
                # A cell that broke it is not made worse.
                sys.path = None
                os.utime(installed.folder, (1, 1))
                installed.look()
        finally:
            sys.path = path
            sys.path[:] = before


if __name__ == "__main__":
    harness.main()
