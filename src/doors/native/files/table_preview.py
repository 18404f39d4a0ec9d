# SPDX-License-Identifier: Apache-2.0
"""Reads rows of a table: runs inside a session, never on the host.

Writes one JSON object to a file and prints one word: ok, or why not (see
table_preview.c). The file may be anything: the session is the wall, the limits
here only keep honest answers quick and small.
"""
import json
import math

CELL = 500  # characters shown of one
COLUMNS = 500
ANSWER = 1_500_000  # bytes


class Problem(Exception):
    """Its text is the word to print."""


def cell(value):
    if value is None or isinstance(value, (bool, int)):
        return value if value is None or abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value)} bytes"
    if isinstance(value, (list, tuple, dict)):
        value = json.dumps(value, default=str, ensure_ascii=False)
    text = str(value)
    return text if len(text) <= CELL else text[:CELL] + "…"


def kind(values):
    seen = {type(v) for v in values if v is not None}
    for types, name in (({bool}, "boolean"), ({int}, "integer"), ({int, float}, "number")):
        if seen and seen <= types:
            return name
    return "text"


def answer(names, types, rows, **more):
    names = names[:COLUMNS]
    rows = [[cell(v) for v in row[:COLUMNS]] for row in rows]
    while len(rows) > 1 and len(json.dumps(rows)) > ANSWER:
        rows = rows[:len(rows) // 2]
    columns = [{"name": str(n)[:CELL], "type": (types[i] if types else kind([r[i] for r in rows if i < len(r)]))}
               for i, n in enumerate(names)]
    return {"columns": columns, "rows": rows, **more}


# ---- CSV ---------------------------------------------------------------------

def number(text):
    """A cell of text as what it looks like."""
    stripped = text.strip()
    if not stripped:
        return None if not text else text
    if stripped[0] in "+-.0123456789":
        digits = stripped.lstrip("+-")
        # Codes with leading zeros are no numbers.
        if not (len(digits) > 1 and digits[0] == "0" and digits[1] not in ".eE"):
            for make in (int, float):
                try:
                    if len(stripped) < 30 and "_" not in stripped:
                        return make(stripped)
                except ValueError:
                    pass
    if stripped in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return stripped.lower() == "true"
    return text


def read_csv(path, offset, limit, delimiter):
    import csv
    csv.field_size_limit(1 << 24)
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        sample = file.read(65536)
        if "\0" in sample:
            raise Problem("damaged")
        file.seek(0)
        if not delimiter:
            first = sample.split("\n", 1)[0]
            delimiter = max("\t;,|", key=lambda d: (first.count(d), d == ","))
            if not first.count(delimiter):
                delimiter = ","
        reader = csv.reader((line.replace("\0", "") for line in file), delimiter=delimiter)
        try:
            names = next(reader, [])
            rows, total = [], 0
            for row in reader:
                if not row:
                    continue
                if offset <= total < offset + limit:
                    rows.append(row)
                total += 1
        except csv.Error:
            raise Problem("damaged") from None
    width = max([len(names), *map(len, rows)])
    names += [f"column {i + 1}" for i in range(len(names), width)]
    rows = [[number(v) for v in row] + [None] * (width - len(row)) for row in rows]
    return answer(names, None, rows, total=total, sheets=[], sheet=None)


# ---- Parquet -----------------------------------------------------------------

def arrow_kind(field):
    text = str(field)
    if text == "bool":
        return "boolean"
    if text.startswith(("int", "uint")):
        return "integer"
    if text.startswith(("float", "double", "half", "decimal")):
        return "number"
    return "time" if text.startswith(("timestamp", "date", "time")) else "text"


def read_parquet(path, offset, limit):
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise Problem("no-reader") from None
    try:
        file = pq.ParquetFile(path)
        names, types = file.schema_arrow.names[:COLUMNS], [arrow_kind(t) for t in file.schema_arrow.types]
        at, columns = 0, [[] for _ in names]
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if at + count > offset and at < offset + limit:
                part = file.read_row_group(group, columns=names)
                start = max(offset - at, 0)
                part = part.slice(start, min(count, offset + limit - at) - start)
                for i, column in enumerate(part.columns):
                    columns[i] += column.to_pylist()
            at += count
        total = file.metadata.num_rows
    except Exception:
        raise Problem("damaged") from None
    return answer(names, types, [list(row) for row in zip(*columns)], total=total, sheets=[], sheet=None)


# ---- Excel -------------------------------------------------------------------

def read_excel(path, offset, limit, sheet):
    try:
        import openpyxl
    except ImportError:
        raise Problem("no-reader") from None
    try:
        # By its bytes: the name here has no ending.
        book = openpyxl.load_workbook(open(path, "rb"), read_only=True, data_only=True)
        sheets = book.sheetnames
        if sheet and sheet not in sheets:
            raise Problem("no-sheet")
        page = book[sheet or sheets[0]]
        names, rows, total = [], [], 0
        for i, row in enumerate(page.iter_rows(values_only=True)):
            if i == 0:
                names = ["" if v is None else v for v in row]
                continue
            if offset <= total < offset + limit:
                rows.append(list(row))
            total += 1
    except Problem:
        raise
    except Exception:
        raise Problem("damaged") from None
    width = max([len(names), *map(len, rows)])
    names = [str(n) or f"column {i + 1}" for i, n in enumerate(names + [""] * (width - len(names)))]
    rows = [row + [None] * (width - len(row)) for row in rows]
    return answer(names, None, rows, total=total, sheets=[str(s)[:CELL] for s in sheets[:200]], sheet=page.title)


def main(what, path, out, offset, limit, sheet, delimiter):
    try:
        if what == "parquet":
            found = read_parquet(path, offset, limit)
        elif what == "excel":
            found = read_excel(path, offset, limit, sheet)
        else:
            found = read_csv(path, offset, limit, delimiter)
        with open(out, "w", encoding="utf-8") as file:
            json.dump({"offset": offset, **found}, file, ensure_ascii=True)
        print("ok")
    except Problem as problem:
        print(problem)
