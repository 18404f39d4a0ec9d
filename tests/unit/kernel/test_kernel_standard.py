# SPDX-License-Identifier: Apache-2.0
"""Kernels with the libraries of the standard image: tables, charts, seeds."""
import json
import struct

import harness

PNG = b"\x89PNG\r\n\x1a\n"


def png_size(data):
    return struct.unpack(">II", data[16:24])


class Standard(harness.SessionCase):
    image = "standard"

    def images(self, code, status=0):
        """All PNG images a cell shows, displays and result."""
        result = self.run_cell(code, status)
        shown = result.displays + ([result.result] if result.result else [])
        images = [d["image/png"] for d in shown if "image/png" in d]
        for image in images:
            self.assertTrue(image.startswith(PNG))
        return images

    # --- large tables ----------------------------------------------------

    def grid(self, code):
        """What a cell's result offers for sorting, or None."""
        data = self.run_cell(code).result.get(
            "application/vnd.glovebox.table+json")
        return None if data is None else json.loads(data)

    def test_large_table_has_its_first_rows(self):
        self.run_cell("import pandas as pd")
        self.assertIsNone(self.grid("pd.DataFrame({'n': range(60)})"))
        grid = self.grid("pd.DataFrame({'n': range(61), 'x': 0.5})")
        self.assertEqual(grid["total"], 61)
        self.assertEqual(grid["columns"], ["n", "x"])
        self.assertEqual(grid["rows"][60], ["60", "0.5"])
        self.assertEqual(grid["index"][60], "60")
        grid = self.grid("pd.DataFrame({'n': range(5000)})")
        self.assertEqual((grid["total"], len(grid["rows"])), (5000, 1000))
        grid = self.grid("pd.DataFrame([[None, float('nan'), 'x' * 999] * 20]"
                         " * 100)")
        self.assertEqual((len(grid["columns"]), grid["total_columns"]),
                         (50, 60))
        self.assertEqual(grid["rows"][0][:3], [None, None, "x" * 200])

    # --- charts ----------------------------------------------------------

    def test_figure_without_asking(self):
        images = self.images("import matplotlib.pyplot as plt\n"
                             "plt.plot([1, 2, 3])")
        self.assertEqual(len(images), 1)
        self.assertGreater(min(png_size(images[0])), 200)
        self.assertEqual(self.images("1"), [])

    def test_figure_is_shown_once(self):
        self.run_cell("import matplotlib.pyplot as plt")
        for code in ("plt.plot([1, 2]); plt.show()",
                     "fig, ax = plt.subplots(); ax.plot([1, 2]); fig",
                     "fig, ax = plt.subplots(); ax.plot([1, 2]); ax",
                     "fig, ax = plt.subplots(); display(fig)",
                     "%matplotlib inline\nplt.plot([1]);",
                     "plt.plot([1]); plt.savefig('/tmp/x.png');",
                     "import pandas as pd; pd.Series([1, 2]).plot()"):
            with self.subTest(code=code):
                self.assertEqual(len(self.images(code)), 1)

    def test_figures_in_the_order_of_the_cell(self):
        result = self.run_cell("import matplotlib.pyplot as plt\n"
                               "for i in range(2):\n    print(i)\n"
                               "    plt.plot([i])\n    plt.show()\n")
        self.assertEqual([k for k, _ in result.events],
                         ["stdout", "display"] * 2)

    def test_closed_figures_are_not_shown(self):
        self.assertEqual(self.images("import matplotlib.pyplot as plt\n"
                                     "plt.plot([1]); plt.close()"), [])
        self.assertEqual(self.images("fig = plt.figure()\nfig.clf();"
                                     "plt.close('all')"), [])

    def test_figure_kept_for_later(self):
        self.images("import matplotlib.pyplot as plt\n"
                    "fig, ax = plt.subplots()")
        self.assertEqual(len(self.images("ax.plot([1, 2])\nfig")), 1)

    def test_figure_before_an_error(self):
        self.assertEqual(len(self.images(
            "import matplotlib.pyplot as plt\nplt.plot([1])\n1 / 0", 1)), 1)

    def test_chinese_title(self):
        result = self.run_cell("import matplotlib.pyplot as plt\n"
                               "plt.title('中文标题 한국어 العربية')\n"
                               "plt.plot([3, 1]);")
        self.assertEqual(result.stderr, "")
        self.assertEqual(len(result.displays), 1)

    def test_R5_figures_leak_no_descriptor(self):
        plot = "import matplotlib.pyplot as plt\nplt.plot([1]);"
        count = "import os; len(os.listdir('/proc/self/fd'))"
        self.images(plot)
        before = self.value(count)
        for _ in range(5):
            self.images(plot)
        self.assertEqual(self.value(count), before)

    def test_plotly_figure_bare_and_shown(self):
        self.run_cell("import plotly.express as px\n"
                      "f = px.line(x=[1, 2], y=[3, 4])")
        for code in ("f", "f.show()"):
            with self.subTest(code=code):
                result = self.run_cell(code)
                shown = result.displays + (
                    [result.result] if result.result else [])
                self.assertEqual(len(shown), 1)
                figure = json.loads(
                    shown[0]["application/vnd.plotly.v1+json"])
                self.assertEqual(figure["data"][0]["type"], "scatter")
                self.assertIn("text/plain", shown[0])
                self.assertLess(sum(map(len, shown[0].values())), 100_000)
                self.assertRegex(
                    shown[0]["text/x.glovebox.brief"].decode(),
                    r"^\[interactive figure \(scatter\) (not )?saved")

    def test_plotly_page_needs_no_network(self):
        self.run_cell("import glovebox_brief, plotly.express as px, tempfile\n"
                      "glovebox_brief.FOLDER = tempfile.mkdtemp()\n"
                      "px.bar(x=[1], y=[2], title='Sales').show()")
        page = self.value("page = open(glovebox_brief.FOLDER + "
                          "'/figure-1.html').read()\n'Plotly.newPlot' in page,"
                          " 'Sales' in page, len(page) > 10**6, "
                          "'https://cdn' in page[:5000]")
        self.assertEqual(page, "(True, True, True, False)")

    # --- values ----------------------------------------------------------

    def test_table(self):
        result = self.run_cell("import pandas as pd\n"
                               "pd.DataFrame({'a': [1, 2]}).describe()")
        self.assertIn(b"count", result.result["text/plain"])
        self.assertIn(b"<table", result.result["text/html"])
        self.assertIn("| count | 2 |",
                      result.result["text/x.glovebox.brief"].decode())

    def brief(self, code):
        return self.run_cell(code).result["text/x.glovebox.brief"].decode()

    def test_table_is_bounded(self):
        self.run_cell("import pandas as pd")
        frame = "pd.DataFrame({'c%%d' %% i: range(%d) for i in range(%d)})"
        self.assertEqual(self.brief("pd.DataFrame({'a': [1, None], "
                                    "'b|c': ['x\\ny', 'z' * 99]})"),
                         "|  | a | b\\|c |\n| --- | --- | --- |\n"
                         "| 0 | 1 | x y |\n| 1 | NaN | %s… |" % ("z" * 59))
        for rows, columns, want in (
                (19, 11, None), (20, 12, None), (21, 12, "… 1 more row"),
                (20, 13, "… 1 more column"),
                (1000, 50, "… 980 more rows, … 38 more columns")):
            with self.subTest(rows=rows, columns=columns):
                lines = self.brief(frame % (rows, columns)).split("\n")
                self.assertEqual(lines[2 + min(rows, 20):],
                                 ["", want] if want else [])
                self.assertEqual(lines[2].count("|"),
                                 min(columns, 12) + 2)
        self.assertIn("| 0 | [0, 1, 2, 3, 4, 5, ...] | 0.333333 |", self.brief(
            "import numpy as np\npd.DataFrame({'l': [list(range(10**6))], "
            "'f': np.array([1 / 3], dtype='float32')})"))
        self.assertIn("| 0 | %s… |" % ("s" * 59), self.brief(
            "pd.DataFrame({'s': ['s' * 10**8]})"))
        wide = self.brief("pd.DataFrame({'c%d' % i: ['w' * 60] * 20 "
                          "for i in range(12)})")
        self.assertLessEqual(len(wide), 4000)
        self.assertIn("… 15 more rows", wide)
        levels = self.brief("pd.DataFrame({('a', 1): [5]}, index="
                            "pd.MultiIndex.from_tuples([('x', 2)], "
                            "names=['k', 'n']))")
        self.assertEqual(levels, "| k / n | a / 1 |\n| --- | --- |\n"
                                 "| x / 2 | 5 |")

    def test_styled_table_is_read_from_its_page(self):
        text = self.brief("import pandas as pd\n"
                          "pd.DataFrame({'a': [1]}).style")
        self.assertEqual(text, "| a\n0 | 1")

    def test_formula_and_picture(self):
        self.assertIn(b"\\int", self.run_cell(
            "import sympy\nx = sympy.symbols('x')\n"
            "sympy.Integral(x**2, x)").result["text/latex"])
        picture = self.run_cell("from PIL import Image\n"
                                "Image.new('RGB', (20, 10))").result
        self.assertEqual(png_size(picture["image/png"]), (20, 10))
        self.assertNotIn("image/jpeg", picture)

    def test_error_in_a_library(self):
        result = self.run_cell("import pandas as pd\n"
                               "pd.DataFrame({'a': [1]})['b']", 1)
        self.assertEqual(result.error["name"], "KeyError")
        self.assertIn("pandas/core/frame.py", result.traceback)
        brief = result.error["brief"].split("\n")
        self.assertEqual(brief[0], "Cell In[1], line 2")
        self.assertEqual(brief[1], "----> 2 pd.DataFrame({'a': [1]})['b']")
        self.assertEqual(brief[2], "[... 1 frame left out ...]")
        self.assertIn("KeyError: 'b'", brief)
        self.assertLess(len(brief), 10)

    # --- promises --------------------------------------------------------

    def test_Z2_numeric_libraries_draw_different_numbers(self):
        draw = ("import numpy as np\n"
                "seq = np.random.mtrand._rand._bit_generator.seed_seq\n"
                "[float(np.random.rand()), float(np.random.randn()), "
                "float(np.random.default_rng().random()), "
                "int(seq.entropy), int(seq.spawn(1)[0].generate_state(1)[0])]")
        other = self.zygote.start()
        result = other.execute(draw)
        other.close()
        mine = json.loads(self.value(draw))
        yours = json.loads(result.result["text/plain"])
        for index, (one, two) in enumerate(zip(mine, yours)):
            self.assertNotEqual(one, two, "source %d" % index)

    def test_Z2_seeding_still_works(self):
        self.assertEqual(self.value(
            "import numpy as np, random\nnp.random.seed(1)\n"
            "a = np.random.rand()\nnp.random.seed(1)\nrandom.seed(5)\n"
            "b = random.random()\nrandom.seed(5)\n"
            "bool(a == np.random.rand()), b == random.random()"),
            "(True, True)")

    def test_Z4_zygote_had_one_thread(self):
        self.assertEqual(self.value(
            "import os, numpy as np\nnp.random.rand(300, 300) @ "
            "np.random.rand(300, 300)\nlen(os.listdir('/proc/self/task'))"),
            "1")

    def test_cores_reach_the_linear_algebra(self):
        session = self.zygote.start(cores=2)
        result = session.execute(
            "import os, numpy as np\na = np.random.rand(600, 600)\na @ a\n"
            "print(len(os.listdir('/proc/self/task')))")
        session.close()
        self.assertEqual(result.stdout, "2\n")


if __name__ == "__main__":
    harness.main()
