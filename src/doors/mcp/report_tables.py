# SPDX-License-Identifier: Apache-2.0
"""Tables that fit on the page.

The second part of the program in report.py. A table gets the widths its
contents ask for. One that is too wide gets smaller type, then a page in
landscape, then is split by columns into parts that repeat its first column.
"""
import copy
import re
import unicodedata

KEPT_EM = 13.0  # a column this narrow is not broken into lines
TEXT_EM = 15.0  # what a column of longer text gets at most
WORD_EM = 18.0  # a longer word is broken
SHORT_ROWS = 10  # a table with no more rows is kept on one page
TYPE_SIZES = ((.9, ""), (.82, "less"), (.74, "small"), (.66, "tiny"))
TYPE_LEAST_PT = 6.0
PART_TYPE = (.74, "small")
PADDING_EM = 1.1
INTRODUCTION_LETTERS = 300  # of a paragraph that goes with its table

NUMBER = re.compile("^[-+\u2212(]?\\s*[$€£¥]?\\s*[\\d.,\\s\u2009\u202f'’_]*"
                    "\\d[\\d.,]*\\s*(?:[eE][-+]?\\d+)?\\s*[%)€]?$")
EMPTY = ("", "-", "–", "—", "nan", "n/a", "null", "none")
NARROW, WIDE = set("iljtfrI.,:;'|!()[]{} "), set("mwMW@%—…")


def text_em(text):
    """About how wide a text is, in em of Noto Sans."""
    width = 0.0
    for c in text:
        if c in NARROW:
            width += .36
        elif c in WIDE:
            width += .95
        elif "0" <= c <= "9":
            width += .575
        elif c.isascii():
            width += .68 if c.isupper() else .58
        elif unicodedata.east_asian_width(c) in "WF":
            width += 1.02
        elif not unicodedata.combining(c):
            width += .72
    return width


def word_em(text):
    """The width of what cannot be broken; East Asian text breaks anywhere."""
    return max((1.1 if any(unicodedata.east_asian_width(c) in "WF" for c in w)
                else text_em(w) for w in text.split()), default=0.0)


def table_rows(table):
    """The rows of a table, without those of tables inside its cells."""
    for part in table:
        if part.tag == "tr":
            yield part
        elif part.tag in ("thead", "tbody", "tfoot"):
            yield from (r for r in part if r.tag == "tr")


def row_cells(row):
    return [c for c in row if c.tag in ("td", "th")]


def make_head(table):
    """A first row of nothing but th becomes the head, so that it repeats."""
    first = next(table_rows(table), None)
    if first is None or table.find("thead") is not None or not len(first):
        return
    if all(cell.tag == "th" for cell in first):
        first.getparent().remove(first)
        head = element("thead")
        head.append(first)
        at = 1 if len(table) and table[0].tag == "caption" else 0
        table.insert(at, head)


def columns_of(table):
    """Per column: the cells of its head and of its body, with their texts."""
    columns = []
    for row in table_rows(table):
        cells = row_cells(row)
        if any(c.get("colspan") for c in cells):
            continue
        inside_head = row.getparent().tag == "thead"
        for i, cell in enumerate(cells):
            while len(columns) <= i:
                columns.append(([], []))
            columns[i][0 if inside_head else 1].append(
                (cell, cell.text_content().strip()))
    return columns


def column_widths(table):
    """What each column asks for, in em; marks numbers and short texts."""
    widths = []
    for head, body in columns_of(table):
        texts = [t for _, t in body if t.lower() not in EMPTY]
        number = bool(texts) and all(NUMBER.match(t) for t in texts)
        word = max([word_em(t) for t in texts]
                   + [1.06 * word_em(t) for _, t in head], default=1)
        whole = max(map(text_em, texts), default=1)
        pictures = any(c.find(".//img") is not None for c, _ in body)
        kept = whole <= KEPT_EM and not pictures
        kind = "num" if number and kept else "keep" if kept else ""
        for cell, _ in (head + body if number else body) if kind else ():
            cell.set("class", (cell.get("class", "") + " " + kind).strip())
        if word > WORD_EM:
            for cell, text in head + body:
                if word_em(text) > WORD_EM:
                    cell.set("class", (cell.get("class", "")
                                       + " long").strip())
        if not kind:
            whole = min(max(KEPT_EM, whole * .7), TEXT_EM)
        widths.append(max(min(word, WORD_EM), whole, 1.5) + PADDING_EM)
    return widths


def line_em(millimetres, size, points):
    return millimetres / (points * size * .3528)


def split_columns(widths, room):
    """The columns of each part, as evenly as possible; every part also has
    the first column."""
    def parts_within(limit):
        parts, used = [[]], 0.0
        for k in range(1, len(widths)):
            if parts[-1] and used + widths[k] > limit:
                parts.append([])
                used = 0.0
            parts[-1].append(k)
            used += widths[k]
        return parts

    limit = max(room - widths[0], room / 3)
    best = parts_within(limit)
    for step in range(1, 20):
        tried = parts_within(limit * (1 - step * .04))
        if len(tried) > len(best):
            break
        best = tried
    return best


def table_part(table, columns, note):
    """A copy of a table with only some of its columns."""
    part = element("table")
    for name, value in table.attrib.items():
        part.set(name, value)
    part.append(element("caption", note))
    for section in table:
        if section.tag == "caption":
            continue
        rows = [section] if section.tag == "tr" else section
        made = part if section.tag == "tr" else element(section.tag)
        for row in rows:
            if row.tag != "tr":
                continue
            cells, line = row_cells(row), element("tr")
            for k in columns:
                line.append(copy.deepcopy(cells[k]) if k < len(cells)
                            else element("td"))
                line[-1].tail = None
            made.append(line)
        if made is not part:
            part.append(made)
    return part


def can_split(table):
    return not any(c.get("colspan") or c.get("rowspan") or c.find(".//table")
                   is not None for r in table_rows(table)
                   for c in row_cells(r))


def bring_along(box):
    """Moves a heading, and a short paragraph below it, onto the page of the
    landscape table they introduce."""
    before = box.getprevious()
    taken = []
    if (before is not None and before.tag == "p" and not (before.tail or ""
                                                          ).strip()
            and len(before.text_content()) <= INTRODUCTION_LETTERS
            and before.getprevious() is not None
            and before.getprevious().tag in HEADINGS):
        taken.append(before)
        before = before.getprevious()
    while (before is not None and before.tag in HEADINGS
           and not (before.tail or "").strip()):
        taken.append(before)
        before = before.getprevious()
    for node in taken:
        node.tail = None
        box.insert(0, node)


def fit_table(table, number, room):
    """Wraps a table in a box whose class says how it is made to fit. room is
    (upright millimetres, landscape millimetres, points of the text)."""
    upright, turned, points = room
    widths = column_widths(table)
    width = sum(widths)
    sizes = [s for s in TYPE_SIZES
             if s[0] * points >= TYPE_LEAST_PT or s[0] == TYPE_SIZES[0][0]]
    name = next((n for s, n in sizes[:3]
                 if width <= line_em(upright, s, points)), None)
    parts = [table]
    if name is None:
        name = next((n for s, n in sizes
                     if width <= line_em(turned, s, points)), None)
        if name is None and can_split(table) and len(widths) > 2:
            size, name = max(PART_TYPE, sizes[-1])
            pieces = split_columns(widths, line_em(turned, size, points))
            title = table.findtext("caption") or ""
            parts = [table_part(table, [0, *piece], (
                f"{title + ', part' if title else 'Part'} {i + 1} of "
                f"{len(pieces)}: columns {piece[0] + 1} to {piece[-1] + 1}"))
                for i, piece in enumerate(pieces)] if (
                    len(pieces) > 1) else [table]
            if len(pieces) > 1:
                warn(f"table {number} has {len(widths)} columns; it is split "
                     f"into {len(pieces)} parts")
        elif name is None:
            name = f"{sizes[-1][1]} broken"
            warn(f"table {number} has {len(widths)} columns and cannot be "
                 "split; words in it are broken to make it fit")
        if turned > upright:
            name += " turned"
    rows = sum(1 for _ in table_rows(table))
    box = element("div", class_="wide " + name)
    replace(table, box)
    for i, part in enumerate(parts):
        frame = element("div", class_="short" if rows <= SHORT_ROWS else
                        "long-table")
        part.set("data-table", f"{number}.{i + 1}")
        frame.append(part)
        box.append(frame)
    if "turned" in name:
        bring_along(box)


def break_around(body):
    """Neighbouring landscape tables share pages; other text does not follow
    on them."""
    def is_turned(node):
        return node is not None and "turned" in (node.get("class") or "")

    for box in body.iter("div"):
        if is_turned(box):
            sides = [side for side, node, text in (
                ("before", box.getprevious(), ""),
                ("after", box.getnext(), box.tail)) if node is not None
                and not (is_turned(node) and not (text or "").strip())]
            box.set("style", "; ".join(f"break-{s}: page" for s in sides))


def overflowing_tables(pages):
    """The tables, by their data-table, that have text outside its cell or the
    page. Reads WeasyPrint's boxes after the layout."""
    found = set()
    for page in pages:
        pending = [(page._page_box, None, None)]
        edge = page._page_box.margin_width()
        while pending:
            box, table, limit = pending.pop()
            node = getattr(box, "element", None)
            tag = getattr(box, "element_tag", None)
            if tag == "table" and node is not None and node.get("data-table"):
                table = node.get("data-table")
            if tag in ("td", "th") and table:
                limit = min(edge, box.position_x + box.margin_width()) + 1.5
                if box.position_x + box.margin_width() > edge + 1:
                    found.add(table)
            if limit is not None and getattr(box, "text", None):
                if box.position_x + box.width > limit:
                    found.add(table)
            pending += [(c, table, limit)
                        for c in getattr(box, "children", ())]
    return found
