# SPDX-License-Identifier: Apache-2.0
"""The first rows of a large pandas table as JSON, for clients that sort.

Runs in the session, called by glovebox_display for tables whose HTML leaves
rows or columns out. It reads the table and changes nothing; a table it cannot
read has its HTML and its text as before.
"""
import sys

GRID = "application/vnd.glovebox.table+json"
ROWS_MAX = 1000
COLUMNS_MAX = 50
CELL_MAX = 200  # characters
TEXT_MAX = 512 * 1024  # characters of all cells


def _cell(value, pandas):
    if isinstance(value, float):
        return None if value != value else "%.10g" % value
    if value is None or value is pandas.NaT or value is pandas.NA:
        return None
    return str(value)[:CELL_MAX]


def preview(value):
    """{"columns","index","rows","total","total_columns"}, or None."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not type(value).__module__.startswith("pandas."):
        return None
    try:
        if not isinstance(value, pandas.DataFrame):
            return None
        shown = pandas.get_option("display.max_rows") or len(value)
        wide = pandas.get_option("display.max_columns") or value.shape[1]
        if len(value) <= shown and value.shape[1] <= wide:
            return None
        part = value.iloc[:ROWS_MAX, :COLUMNS_MAX]
        rows, left = [], TEXT_MAX
        for row in part.itertuples(index=False, name=None):
            cells = [_cell(cell, pandas) for cell in row]
            left -= sum(len(cell) for cell in cells if cell)
            if left < 0:
                break
            rows.append(cells)
        return {"columns": [str(name)[:CELL_MAX] for name in part.columns],
                "index": [str(name)[:CELL_MAX]
                          for name in part.index[:len(rows)]],
                "rows": rows, "total": len(value),
                "total_columns": value.shape[1]}
    except Exception:
        return None  # The HTML is there as well.
