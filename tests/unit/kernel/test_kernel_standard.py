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

    # --- values ----------------------------------------------------------

    def test_table(self):
        result = self.run_cell("import pandas as pd\n"
                               "pd.DataFrame({'a': [1, 2]}).describe()")
        self.assertIn(b"count", result.result["text/plain"])
        self.assertIn(b"<table", result.result["text/html"])

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
