# SPDX-License-Identifier: Apache-2.0
"""The parts of the report program that need no PDF: Markdown to HTML, and how
a table is made to fit. They run inside the standard image, which has the
libraries; all cases share one process there."""
import glob
import json
import os
import re
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.abspath(os.path.join(HERE, "../../../src/doors/mcp"))
PARTS = ("report_markdown.py", "report_tables.py", "report.py")
CACHE = "/var/cache/glovebox/runtimes"
# Only this process sees the mount.
ENTER = """
set -e
mount --make-rprivate /
mount -t tmpfs none "$1/tmp"
cat > "$1/tmp/program.py"
exec chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 \
    /usr/bin/python3 -I -B -X utf8 /tmp/program.py
"""
DRIVER = """

def answer(kind, value):
    warnings.clear()
    if kind == "file":
        rows, total = take_rows(io.StringIO(value))
        made = make_table(rows, total, "a.csv", "")
        return [lx.tostring(made, encoding="unicode"), warnings[:]]
    body = body_of_markdown(value)
    if kind == "formulas":
        for node in list(body.iter("span", "div")):
            if (node.get("class") or "").startswith("formula"):
                place_formula(node)
    if kind == "tables":
        for number, table in enumerate(list(body.iter("table")), 1):
            make_head(table)
            fit_table(table, number, (166, 253, 10))
        break_around(body)
    return [lx.tostring(body, encoding="unicode"), warnings[:]]


print(json.dumps({name: answer(*case) for name, case in CASES.items()}))
"""


def rows(columns, count=2, cell="r{r}c{c}"):
    lines = ["|" + "|".join(f"h{c}" for c in range(columns)) + "|",
             "|" + "---|" * columns]
    lines += ["|" + "|".join(cell.format(r=r, c=c) for c in range(columns))
              + "|" for r in range(count)]
    return "\n".join(lines) + "\n"


def sheet(columns, count, cell="v"):
    line = ",".join([cell] * columns) + "\n"
    return line.replace(cell, "h") + line * count


CASES = {
    **{f"columns_{n}": ("file", sheet(n, 1)) for n in (199, 200, 201)},
    **{f"rows_{n}": ("file", sheet(1, n)) for n in (1999, 2000, 2001)},
    **{f"cells_{n}": ("file", sheet(20, n)) for n in (999, 1000, 1001)},
    **{f"letters_{n}": ("file", sheet(2, 1, "x" * n))
       for n in (1999, 2000, 2001)},
    "list_after_text": ("text", "Text:\n- a\n- b\n\nAfter"),
    "number_after_text": ("text", "In the year\n1984. it was"),
    "one_after_text": ("text", "Steps:\n1. a\n2. b"),
    "two_spaces": ("text", "- a\n  - b\n    - c\n- d"),
    "four_spaces": ("text", "- a\n    - b\n        - c\n- d"),
    "mixed": ("text", "1. a\n  - b\n    - c\n2. d\n   1. e"),
    "tabs": ("text", "* a\n\t* b\n\t\t* c"),
    "loose": ("text", "- a\n\n- b\n\n  more"),
    "two_kinds": ("text", "- a\n1. b\n   - c\n   2. d\n2. e"),
    "start": ("text", "10. a\n11) b"),
    "code_in_list": ("text", "1. a\n   ```sh\n   ls -l\n     x\n   ```\n2. b"),
    "tasks": ("text", "- [ ] a\n- [x] b\n- [y] c"),
    "table_after_text": ("text", "Text\n| a | b |\n|:-:|--:|\n"
                         "| 1 \\| 2 | `x \\| y` |\nAfter"),
    "row_too_long": ("text", "|a|b|\n|-|-|\n|1|2|3|"),
    "strike": ("text", "~~a~~ and ~5 or ~6 and a~~b"),
    "links": ("text", "See https://e.org/a_b_c(d). <https://x.org> "
              "[t](https://y.org) `https://z.org` (www.w.org)"),
    "breaks": ("text", "a\\\nb  \nc\nd"),
    "quote": ("text", "> a\n> - b\n>\n> ```\n> c\n> ```\n\n> d"),
    "alert": ("text", "> [!NOTE]\n> text"),
    "no_heading": ("text", "#1 of all\n# Heading\ntext"),
    "fence_open": ("text", "```py\nx\n\ny"),
    "fence_long": ("text", "````\n```\nx\n```\n````"),
    "details": ("text", "<div>\n\nText\n- a\n\n</div>"),
    "braces": ("text", "| a |\n|---|\n| x {y} |\n\n# T {z}"),
    "money": ("text", "$5 and $10, US$7, $5-$10, \\$3, `$x$`"),
    "math": ("text", "$x^2$, \\(a+b\\), \\[1\\], $$y$$\n\n$$\nz\n=1\n$$\n\n"
             "\\[ w \\]\n\n```math\nv\n```"),
    "drawn": ("formulas", "$\\frac{a}{b}$ $$\\begin{pmatrix}1&2\\\\3&4"
              "\\end{pmatrix}$$ $\\argmax_x \\lVert x \\rVert \\le 1$"),
    "not_drawn": ("formulas", "$\\frac{\\alpha}{b} \\nosuch{c} \\le 1$"),
    "normal": ("tables", rows(5)),
    "small": ("tables", rows(17)),
    "landscape": ("tables", "# Head\n\nIntro\n\n" + rows(22) + "\nAfter"),
    "split": ("tables", rows(31, cell="value r{r}c{c}")),
    "neighbours": ("tables", rows(22) + "\n" + rows(22)),
    "joined": ("tables", "<table><tr><th colspan=2>a</th></tr><tr>" + "".join(
        f"<td>value{c}</td>" for c in range(40)) + "</tr></table>"),
    "long_word": ("tables", "|a|b|\n|-|-|\n|" + "x" * 100 + "|y|"),
}


def find_image():
    found = glob.glob(f"{CACHE}/standard-*/manifest.json")
    newest = max(found, key=os.path.getmtime, default=None)
    return newest and os.path.join(os.path.dirname(newest), "root")


class Report(unittest.TestCase):
    answers = None

    @classmethod
    def setUpClass(cls):
        root = find_image()
        if root is None:
            raise unittest.SkipTest("runtime image standard is not built")
        if os.geteuid() != 0:
            raise unittest.SkipTest("entering an image needs root")
        if Report.answers is None:
            program = ""
            for name in PARTS:
                with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
                    program += f.read()
            program = program.replace('if __name__ == "__main__":\n    main()',
                                      f"CASES = {CASES!r}\n" + DRIVER)
            done = subprocess.run(
                ["unshare", "-m", "sh", "-c", ENTER, "sh", root],
                input=program, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr[-3000:]
            Report.answers = json.loads(done.stdout)

    def html(self, name):
        text = re.sub(r"</?main>", "", self.answers[name][0])
        return re.sub(r">\s+<", "><", text.replace("\n", " ")).strip()

    def warned(self, name):
        return self.answers[name][1]

    def test_list_directly_after_text(self):
        self.assertEqual(self.html("list_after_text"), "<p>Text:</p><ul>"
                         "<li>a</li><li>b</li></ul><p>After</p>")
        self.assertNotIn("<ol", self.html("number_after_text"))
        self.assertIn("<ol><li>a</li><li>b</li></ol>",
                      self.html("one_after_text"))

    def test_nested_lists(self):
        nested = "<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li>"
        for name in ("two_spaces", "four_spaces"):
            self.assertEqual(self.html(name), nested + "<li>d</li></ul>", name)
        self.assertEqual(self.html("tabs"), nested + "</ul>")
        self.assertEqual(
            self.html("mixed"), "<ol><li>a<ul><li>b<ul><li>c</li></ul></li>"
            "</ul></li><li>d<ol><li>e</li></ol></li></ol>")

    def test_lists(self):
        self.assertEqual(self.html("loose"), "<ul><li><p>a</p></li><li><p>b"
                         "</p><p>more</p></li></ul>")
        self.assertEqual(self.html("two_kinds"), "<ul><li>a</li></ul><ol>"
                         "<li>b<ul><li>c</li></ul><ol start=\"2\"><li>d</li>"
                         "</ol></li><li>e</li></ol>")
        self.assertEqual(self.html("start"), '<ol start="10"><li>a</li><li>b'
                         "</li></ol>")
        self.assertIn('<li>a <pre><code class="language-sh">ls -l   x '
                      "</code></pre></li><li>b</li>",
                      self.html("code_in_list"))
        self.assertEqual(self.html("tasks"), '<ul><li class="task">☐ a</li>'
                         '<li class="task">☑ b</li><li>[y] c</li></ul>')

    def test_tables(self):
        text = self.html("table_after_text")
        self.assertTrue(text.startswith("<p>Text</p><table>"), text)
        self.assertTrue(text.endswith("</table><p>After</p>"), text)
        self.assertIn('<td style="text-align: center;">1 | 2</td>', text)
        self.assertIn("<code>x | y</code>", text)
        self.assertEqual(self.warned("row_too_long"), [
            "a table row has more cells than the table has columns; left out: "
            "3"])
        self.assertIn("<td>x {y}</td>", self.html("braces"))
        self.assertIn(">T {z}</h1>", self.html("braces"))

    def test_inside_lines(self):
        self.assertEqual(self.html("strike"),
                         "<p><del>a</del> and ~5 or ~6 and a~~b</p>")
        text = self.html("links")
        for url in ("https://e.org/a_b_c(d)", "https://x.org",
                    "https://y.org", "http://www.w.org"):
            self.assertEqual(text.count(f'href="{url}"'), 1, url)
        self.assertIn("<code>https://z.org</code>", text)
        self.assertEqual(self.html("breaks"), "<p>a<br> b<br> c d</p>")

    def test_blocks(self):
        self.assertEqual(
            self.html("quote"), "<blockquote><p>a</p><ul><li>b</li></ul><pre>"
            '<code class="language-">c </code></pre></blockquote><blockquote>'
            "<p>d</p></blockquote>")
        self.assertIn('class="admonition note"', self.html("alert"))
        self.assertEqual(self.html("no_heading"), '<p>#1 of all</p><h1 id='
                         '"heading">Heading</h1><p>text</p>')
        self.assertIn("x  y </code>", self.html("fence_open"))
        self.assertIn("never ends", self.warned("fence_open")[0])
        self.assertIn("``` x ``` </code>", self.html("fence_long"))
        self.assertEqual(self.html("details"), "<div><p>Text</p><ul><li>a</li>"
                         "</ul></div>")

    def test_formulas(self):
        self.assertEqual(self.html("money"), "<p>$5 and $10, US$7, $5-$10, $3,"
                         " <code>$x$</code></p>")
        text = self.html("math")
        for formula in ("x^2", "a+b"):
            self.assertIn(f'<span class="formula">{formula}</span>', text)
        self.assertIn("[1]", text)
        self.assertIn('<span class="formula display">y</span>', text)
        for formula in ("z =1", "w", "v"):
            self.assertIn(f'<div class="formula display">{formula}</div>',
                          text)

    def test_formulas_are_drawn_or_readable(self):
        self.assertEqual(self.html("drawn").count("<img"), 3)
        self.assertEqual(self.warned("drawn"), [])
        self.assertIn("(α)/(b) nosuch{c} ≤ 1", self.html("not_drawn"))
        self.assertEqual(len(self.warned("not_drawn")), 1)

    def test_tables_shrink_then_turn(self):
        self.assertIn('<div class="wide "><div class="short">',
                      self.html("normal"))
        self.assertRegex(self.html("small"), 'class="wide (less|small)"')
        turned = self.html("landscape")
        self.assertRegex(turned, r'class="wide \w* ?turned" style="break-'
                         'after: page"><h1')
        self.assertEqual(self.warned("landscape"), [])
        self.assertIn('style="break-after: page"', turned)
        pair = self.html("neighbours")
        self.assertEqual(pair.count("turned"), 2)
        self.assertNotIn("break-", pair)

    def test_tables_are_split_by_columns(self):
        text = self.html("split")
        parts = text.count("<table")
        self.assertGreater(parts, 1)
        self.assertEqual(self.warned("split"), [
            f"table 1 has 31 columns; it is split into {parts} parts"])
        for r in range(2):
            self.assertEqual(text.count(f">value r{r}c0<"), parts)
            for c in range(1, 31):
                self.assertEqual(text.count(f">value r{r}c{c}<"), 1)
        self.assertEqual(text.count("<thead"), parts)
        self.assertIn(f"Part 1 of {parts}: columns 2 to ", text)
        self.assertIn('<td class="long">', self.html("long_word"))
        self.assertIn("broken turned", self.html("joined"))
        self.assertEqual(self.warned("joined"), [
            "table 1 has 40 columns and cannot be split; words in it are "
            "broken to make it fit"])

    def test_limits_of_a_file(self):
        for name, cells in (("columns_199", 199), ("columns_200", 200),
                            ("rows_1999", 1999), ("rows_2000", 2000),
                            ("cells_999", 19_980), ("cells_1000", 20_000),
                            ("letters_1999", 2), ("letters_2000", 2)):
            self.assertEqual(self.warned(name), [], name)
            self.assertEqual(self.html(name).count("<td>"), cells, name)
            self.assertNotIn("\u2026", self.html(name), name)
        for name, words in (
                ("columns_201", "a.csv has 201 columns; the first 200 are "
                 "shown"),
                ("rows_2001", "a.csv has 2001 rows; the first 2000 are shown"),
                ("cells_1001", "a.csv has 1001 rows; the first 1000 are "
                 "shown"),
                ("letters_2001", "2 cells of a.csv have more than 2,000 "
                 "letters; the rest is left out")):
            self.assertEqual(self.warned(name), [words], name)
        self.assertIn("The first 2,000 of 2,001 rows.",
                      self.html("rows_2001"))
        self.assertIn("x" * 2000 + "\u2026<", self.html("letters_2001"))
