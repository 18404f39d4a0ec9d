# SPDX-License-Identifier: Apache-2.0
"""Kernels without IPython, on the host's python3."""
import cells
import harness


class Plain(cells.Cells, harness.SessionCase):
    def test_display_of_rich_objects(self):
        result = self.run_cell(
            "class Rich:\n    def _repr_html_(self): return '<b>'\n"
            "    def __repr__(self): return 'Rich'\n"
            "display(Rich())\nRich()")
        want = {"text/plain": b"Rich", "text/html": b"<b>"}
        self.assertEqual(result.displays, [want])
        self.assertEqual(result.result, want)

    def test_magics_are_an_error(self):
        result = self.run_cell("%time 1", 1)
        self.assertEqual(result.error["name"], "SyntaxError")

    def test_underscore(self):
        self.run_cell("41 + 1")
        self.assertEqual(self.value("_"), "42")


if __name__ == "__main__":
    harness.main()
