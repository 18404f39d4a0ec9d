# SPDX-License-Identifier: Apache-2.0
"""Makes a PDF report of Markdown or HTML. Runs inside a session, as a process
of its own: the daemon sends it there and never runs it.

tool_report.c joins report_markdown.py, report_tables.py and this file, in this
order, to one program; all three share one namespace.

Standard input is a line of JSON, then the text. The JSON has format
("markdown" or "html"), path and the options of the generate_pdf_report tool.
Standard output is one line of
JSON with the result and, when there is one, a second line with a picture of a
page as a PNG in base64. Standard error has a line for each step.
"""
import base64
import csv
import difflib
import html
import io
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import unicodedata
from urllib.parse import unquote, urlsplit

ROOT = "/mnt/data"
ROWS_MAX = 2000
COLUMNS_MAX = 200
CELL_MAX = 2000  # letters
CELLS_MAX = 20_000  # of a table that comes from a file
IMAGE_KINDS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".bmp",
               ".tif", ".tiff", ".avif")
TABLE_KINDS = (".csv", ".tsv", ".xlsx", ".xls", ".ods")
PREVIEW_WIDTHS = (800, 560, 400)
PREVIEW_BYTES = 400_000
PREVIEW_LETTERS = 200  # a page with less text and nothing else is a cover
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
BLOCKS = ("p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "dt",
          "dd", "td", "th", "figcaption", "caption")

problems = []  # why no report can be made: files that are missing or broken
own_files = "none:"  # what the addresses of our own temporary files begin with


class Fault(Exception):
    """Something the caller can put right; a sentence and what to do."""

    def __init__(self, message, hint=""):
        super().__init__(message)
        self.hint = hint


def stage(text):
    print(text, file=sys.stderr, flush=True)


# ---- files ----------------------------------------------------------------

def local_path(url):
    """A reference of the text as a path below /mnt/data, or None."""
    url = url.strip()
    if url.startswith("sandbox:"):
        url = url[len("sandbox:"):]
    parts = urlsplit(url)
    if (parts.scheme not in ("", "file")
            or parts.netloc not in ("", "localhost")):
        return None
    for name in (unquote(parts.path), url):
        path = os.path.realpath(os.path.join(ROOT, name))
        if path.startswith(ROOT + "/") and os.path.isfile(path):
            return path
    path = os.path.realpath(os.path.join(ROOT, unquote(parts.path)))
    return path if path.startswith(ROOT + "/") else None


def read_rows(path):
    """The cells of a table file, and how many rows it has."""
    kind = os.path.splitext(path)[1].lower()
    if kind in (".csv", ".tsv"):
        with open(path, encoding="utf-8-sig", errors="replace",
                  newline="") as f:
            return take_rows(f, "\t" if kind == ".tsv" else None)
    import pandas
    frame = pandas.read_excel(path, header=None, dtype=object)
    rows = [["" if pandas.isna(c) else str(c) for c in row]
            for row in frame.head(ROWS_MAX + 1).itertuples(index=False)]
    return rows, len(frame)


def take_rows(lines, delimiter=None):
    if delimiter is None:
        sample = lines.read(65536)
        lines.seek(0)
        try:
            delimiter = csv.Sniffer().sniff(sample, ",;\t|").delimiter
        except csv.Error:
            delimiter = ","
    csv.field_size_limit(1 << 24)
    rows, count = [], 0
    for row in csv.reader(lines, delimiter=delimiter):
        if not row:
            continue
        count += 1
        if count <= ROWS_MAX + 1:
            rows.append(row)
    return rows, count


# ---- HTML -----------------------------------------------------------------

def element(tag, text=None, **attributes):
    made = lx.Element(tag)
    made.text = text
    for name, value in attributes.items():
        made.set(name.rstrip("_"), value)
    return made


def make_table(rows, total, name, title):
    """A table of cells whose first row is its head."""
    if not rows:
        warn(f"{name} is empty")
        return element("p", f"[{name} is empty]", class_="missing")
    widest = max(len(r) for r in rows)
    width = min(widest, COLUMNS_MAX)
    if widest > width:
        warn(f"{name} has {widest} columns; the first {width} are shown")
    rows = rows[:max(CELLS_MAX // width, 1) + 1]
    table, cut = element("table"), 0
    if title:
        table.append(element("caption", title))
    for i, row in enumerate(rows):
        if i == 0:
            part, cell = element("thead"), "th"
            table.append(part)
        elif i == 1:
            part, cell = element("tbody"), "td"
            table.append(part)
        line = element("tr")
        for k in range(width):
            text = clean(row[k]) if k < len(row) else ""
            if len(text) > CELL_MAX:
                text = text[:CELL_MAX] + "…"
                cut += 1
            line.append(element(cell, text))
        part.append(line)
    if cut:
        warn(f"{cut} cell{'s' * (cut > 1)} of {name} "
             f"{'have' if cut > 1 else 'has'} more than {CELL_MAX:,} letters; "
             "the rest is left out")
    if total > len(rows):
        warn(f"{name} has {total - 1} rows; the first {len(rows) - 1} are "
             "shown")
        box = element("div")
        box.append(table)
        box.append(element("p", f"The first {len(rows) - 1:,} of "
                           f"{total - 1:,} rows.", class_="note"))
        return box
    return table


def table_of_file(path, title):
    name = os.path.relpath(path, ROOT)
    try:
        rows, total = read_rows(path)
    except Exception as e:  # whatever a broken file makes its reader say
        raise Fault(f"{name} could not be read as a table: {e}",
                    "Check the file with execute_python.") from e
    return make_table(rows, total, name, title)


def replace(old, new):
    new.tail = old.tail
    old.tail = None
    old.getparent().replace(old, new)


def leave_out(node, words):
    warn(words)
    replace(node, element("span", f"[{words}]", class_="missing"))


def missing(name):
    """A file that the text names and the session does not have: no report is
    made without it."""
    have = []
    for folder, _, names in os.walk(ROOT):
        have += [os.path.relpath(os.path.join(folder, n), ROOT)
                 for n in names
                 if n.lower().endswith(IMAGE_KINDS + TABLE_KINDS)]
        if len(have) > 2000:
            break
    plain = re.sub(r"^(sandbox:|file://)?(/mnt/data/)?", "", name)
    near = difflib.get_close_matches(plain, have, 1, .6)
    problems.append(f"{name[:120]} was not found"
                    + (f" (there is {near[0]})" if near else ""))


def is_alone(node):
    """The only thing in its paragraph."""
    parent = node.getparent()
    return (parent is not None and parent.tag == "p" and len(parent) == 1
            and not (parent.text or "").strip()
            and not (node.tail or "").strip())


def check_picture(path, source):
    """Finds out now whether a picture can be read, not in the PDF."""
    if path.lower().endswith((".svg", ".avif")):
        return
    from PIL import Image
    try:
        with Image.open(path) as picture:
            picture.load()
    except Exception as e:  # whatever a broken file makes its reader say
        problems.append(f"{source[:120]} could not be read as a picture: {e}")


def place_image(node):
    source = (node.get("src") or "").strip()
    title = node.get("alt") or ""
    if "formula" in (node.get("class") or ""):
        return
    if not source.startswith("data:"):
        path = local_path(source)
        kind = os.path.splitext(urlsplit(source).path)[1].lower()
        if path is None and urlsplit(source).netloc not in ("", "localhost"):
            return leave_out(node, f"{source[:120]} is left out: there is no "
                             "network")
        if path is None:
            problems.append(f"{source[:120]} is not below /mnt/data")
            return
        if not os.path.isfile(path):
            missing(source)
            return
        if kind in TABLE_KINDS:
            table = table_of_file(
                path, "" if title.lower() == "table" else title)
            return replace(node.getparent() if is_alone(node) else node,
                           table)
        if kind not in IMAGE_KINDS:
            problems.append(f"{source[:120]} is neither a picture nor a table")
            return
        check_picture(path, source)
        node.set("src", "file://" + path)
    if is_alone(node):
        parent = node.getparent()
        parent.tag = "figure"
        node.tail = None
        if title:
            parent.append(element("figcaption", title))


def place_csv(node):
    """A fenced csv block: the name of a file, or the rows themselves."""
    text = node.text_content().strip("\n")
    if not text.strip():
        return
    path = local_path(text) if "\n" not in text else None
    if path and os.path.isfile(path):
        replace(node, table_of_file(path, ""))
    elif "\n" not in text and re.fullmatch(r"\S+\.(csv|tsv|xlsx?|ods)", text):
        missing(text)
    else:
        rows, total = take_rows(io.StringIO(text))
        replace(node, make_table(rows, total, "the table", ""))


def code_language(pre):
    names = " ".join((pre.get("class") or "", *(
        c.get("class") or "" for c in pre.iter("code"))))
    found = re.search(r"(?:language|lang)-([\w+#-]+)", names)
    return found.group(1).lower() if found else ""


def colour_code(pre, language):
    """Tokens as spans, where Pygments knows the language."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ImportError:
        return
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return
    text = highlight(pre.text_content().rstrip("\n"), lexer,
                     HtmlFormatter(nowrap=True))
    made = lx.fragment_fromstring(f"<pre><code>{text.rstrip()}</code></pre>")
    replace(pre, made)


# ---- scripts and directions -------------------------------------------------

def direction(text):
    """"rtl" or "ltr" by the first strong letter, None without one."""
    for c in text[:2000]:
        kind = unicodedata.bidirectional(c)
        if kind in ("R", "AL"):
            return "rtl"
        if kind == "L":
            return "ltr"
    return None


def script(text):
    """The language whose shapes Han letters should have, or that of an
    alphabet that its own font is for."""
    for c in text[:2000]:
        at = ord(c)
        if 0x3040 <= at <= 0x30ff:
            return "ja"
        if 0xac00 <= at <= 0xd7af:
            return "ko"
    for c in text[:2000]:
        at = ord(c)
        if 0x4e00 <= at <= 0x9fff or 0x3400 <= at <= 0x4dbf:
            return "zh-Hans"
        if 0x0590 <= at <= 0x05ff:
            return "he"
        if 0x0600 <= at <= 0x06ff:
            return "ar"
    return None


def mark_text(body):
    for node in body.iter(*BLOCKS):
        text = node.text_content()
        language = script(text)
        if language and not node.get("lang"):
            node.set("lang", language)
        if direction(text) == "rtl" and not node.get("dir"):
            node.set("dir", "rtl")
    for node in body.iter("ul", "ol", "dl", "table"):
        marks = [direction(n.text_content())
                 for n in node.iter("li", "dt", "dd", "td", "th")]
        right = marks.count("rtl")
        if right and right >= marks.count("ltr") and not node.get("dir"):
            node.set("dir", "rtl")


# ---- the document -----------------------------------------------------------

def clean(text):
    return "".join(c for c in text if c in "\t\n\r" or ord(c) >= 0x20)


def body_of_html(text):
    if not text.strip():
        text = "<p></p>"
    whole = lx.document_fromstring(text)
    styles = [s.text_content() for s in whole.iter("style")]
    for node in list(whole.iter("style", "script", "link", "base", "iframe",
                                "object", "embed")):
        node.drop_tree()
    body = whole.find("body")
    if body is None:
        body = whole
    body.tag = "main"
    return body, styles


def arrange(body, options):
    """Everything between the text's own HTML and what is laid out."""
    for pre in list(body.iter("pre")):
        language = code_language(pre)
        if language in ("csv", "tsv"):
            place_csv(pre)
        elif language:
            colour_code(pre, language)
    for node in list(body.iter("img")):
        place_image(node)
    for node in list(body.iter("a")):
        target = node.get("href") or ""
        if target.startswith("sandbox:") or not urlsplit(target).scheme:
            if not target.startswith("#"):
                node.attrib.pop("href", None)
    if problems:
        raise Fault("; ".join(problems), "Save pictures and tables below "
                    "/mnt/data first, and name them as they are there.")
    for node in list(body.iter("span", "div")):
        if (node.get("class") or "").startswith("formula"):
            place_formula(node)
    room, number = table_room(options), 0
    for table in list(body.iter("table")):
        if any(a.tag == "table" for a in table.iterancestors()):
            continue
        number += 1
        make_head(table)
        fit_table(table, number, room)
    break_around(body)
    mark_text(body)


SIZES = {  # millimetres
    "A3": (297, 420), "A4": (210, 297), "A5": (148, 210),
    "Letter": (215.9, 279.4), "Legal": (215.9, 355.6),
    "Tabloid": (279.4, 431.8),
}
MARGINS = {"plain": 22, "report": 22, "compact": 14}
POINTS = {"plain": 10, "report": 10, "compact": 8.5}


def table_room(options):
    """Millimetres of a line, upright and in landscape; points of the text."""
    short, long = SIZES[options["page_size"]]
    edge = 2 * MARGINS[options["theme"]]
    points = POINTS[options["theme"]]
    return ((long if options["landscape"] else short) - edge, long - edge,
            points)


def headings(body):
    used = {n.get("id") for n in body.iter() if n.get("id")}
    found = []
    for node in body.iter("h1", "h2", "h3"):
        text = " ".join(node.text_content().split())
        if not text:
            continue
        if not node.get("id"):
            name = f"section-{len(found) + 1}"
            while name in used:
                name += "x"
            used.add(name)
            node.set("id", name)
        found.append((int(node.tag[1]), text, node.get("id")))
    return found


def contents(found):
    nav = element("nav", class_="contents")
    nav.append(element("h2", "Contents", class_="contents-title"))
    least = min(level for level, _, _ in found)
    for level, text, name in found:
        line = element("p", class_=f"level{level - least + 1}")
        if direction(text) == "rtl":
            line.set("dir", "rtl")
        language = script(text)
        if language:
            line.set("lang", language)
        line.append(element("a", text, href="#" + name))
        nav.append(line)
    return nav


def title_block(options):
    block = element("header", class_="title")
    heading = element("h1", options["title"], class_="document-title")
    block.append(heading)
    if options["author"]:
        block.append(element("p", options["author"], class_="author"))
    mark_text(block)
    return block


def same_words(a, b):
    return " ".join(a.split()).casefold() == " ".join(b.split()).casefold()


def compose(body, options):
    """The document: title, contents, text, in this order."""
    whole = element("body")
    first = next(iter(body.iter("h1")), None)
    if options["title"]:
        # The text's own title would only repeat it.
        if first is not None and same_words(first.text_content(),
                                            options["title"]):
            first.drop_tree()
        whole.append(title_block(options))
    found = headings(body)
    if options["toc"] and found:
        whole.append(contents(found))
    whole.append(body)
    if not options["title"]:
        options["title"] = found[0][1] if found else ""
    return whole


def document_text(whole, options):
    language = script(whole.text_content()[:4000])
    head = (f"<meta charset='utf-8'><title>{html.escape(options['title'])}"
            "</title>")
    if options["author"]:
        author = html.escape(options["author"])
        head += f"<meta name='author' content='{author}'>"
    head += "<meta name='generator' content='Glovebox'>"
    main_language = language if language in ("ja", "ko") else "en"
    return (f"<!DOCTYPE html><html lang='{main_language}'><head>{head}</head>"
            + lx.tostring(whole, encoding="unicode") + "</html>")


# ---- looks ------------------------------------------------------------------

def css_text(text, options):
    """A string for `content`, where {page}, {pages} and {title} count."""
    out = []
    for piece in re.split(r"(\{page\}|\{pages\}|\{title\})", text):
        if piece == "{page}":
            out.append("counter(page)")
        elif piece == "{pages}":
            out.append("counter(pages)")
        elif piece:
            piece = options["title"] if piece == "{title}" else piece
            out.append('"' + "".join(
                c if c.isalnum() or c == " " else f"\\{ord(c):x} "
                for c in piece) + '"')
    return " ".join(out) or '""'


# No colour font may be named: fontconfig then prefers colour for all text.
FONTS = ('"Noto Sans", "East SC", "Noto Sans CJK SC", "Noto Naskh Arabic", '
         '"Noto Sans Hebrew", "DejaVu Sans", sans-serif')

BASE = """
* { box-sizing: border-box }
html { font-family: FONTS; font-size: 10pt; line-height: 1.5; color: #1c2733 }
:lang(ja) { font-family: "Noto Sans", "East JP", "Noto Sans CJK JP", FONTS }
:lang(ko) { font-family: "Noto Sans", "East KR", "Noto Sans CJK KR", FONTS }
:lang(zh-Hans) { font-family: FONTS }
:lang(ar) { font-family: "Noto Sans", "Noto Naskh Arabic", FONTS }
:lang(he) { font-family: "Noto Sans", "Noto Sans Hebrew", FONTS }
body { margin: 0 }
p { margin: 0 0 .75em; orphans: 2; widows: 2 }
[dir=rtl] { text-align: right }
h1, h2, h3, h4, h5, h6 { line-height: 1.25; margin: 1.5em 0 .5em;
  break-after: avoid; break-inside: avoid; font-weight: 700; color: INK }
h1 { font-size: 1.75em } h2 { font-size: 1.35em } h3 { font-size: 1.13em }
h4, h5, h6 { font-size: 1em }
main > :first-child { margin-top: 0 }
header.title { margin-bottom: 1.6em }
h1.document-title { font-size: 2.3em; margin: 0 0 .2em; bookmark-level: none }
p.author { color: #566573; font-size: 1.1em; margin: 0 }
a { color: LINK; text-decoration: none }
ul, ol { margin: 0 0 .75em; padding-left: 1.6em }
ul[dir=rtl], ol[dir=rtl] { padding-left: 0; padding-right: 1.6em }
li { margin: .15em 0 } li > p { margin-bottom: .3em }
blockquote { margin: 0 0 .9em; padding: .1em 1em; color: #44525f;
  border-left: 3pt solid RULE }
blockquote[dir=rtl] { border-left: 0; border-right: 3pt solid RULE }
blockquote > :last-child { margin-bottom: 0 }
hr { border: 0; border-top: .75pt solid RULE; margin: 1.5em 0 }
code { font-family: "Noto Sans Mono", "DejaVu Sans Mono", "Noto Sans CJK SC",
  monospace; font-size: .88em; background: #f1f4f7; padding: .05em .3em;
  border-radius: 2pt; overflow-wrap: anywhere }
pre { background: #f5f7f9; border: .75pt solid #dde3e8; border-radius: 3pt;
  padding: .7em .9em; margin: 0 0 1em; line-height: 1.4;
  white-space: pre-wrap; overflow-wrap: anywhere; direction: ltr;
  text-align: left; box-decoration-break: clone }
pre code { background: none; padding: 0; font-size: .84em }
figure { margin: 0 0 1.1em; text-align: center; break-inside: avoid }
img { max-width: 100%; max-height: IMAGEmm; object-fit: contain }
figcaption, caption { color: #566573; font-size: .88em; margin-top: .4em }
caption { text-align: left; margin: 0 0 .4em; caption-side: top;
  break-after: avoid; font-weight: 600 }
table { border-collapse: collapse; margin: 0 0 1.1em; width: 100%;
  font-size: .9em; line-height: 1.35; font-variant-numeric: tabular-nums }
thead { display: table-header-group }
tr { break-inside: avoid }
th, td { padding: .35em .55em; text-align: left; vertical-align: top;
  border: 0; border-bottom: .5pt solid #dde3e8; overflow-wrap: break-word }
th { border-bottom: 1pt solid INK; color: INK; font-weight: 700;
  vertical-align: bottom }
th.num, td.num { text-align: right; white-space: nowrap }
td.keep { white-space: nowrap }
th.num { white-space: normal }
th[dir=rtl], td[dir=rtl] { text-align: right }
table[dir=rtl] th, table[dir=rtl] td { text-align: right }
tbody tr:nth-child(even) td { background: #f7f9fa }
.wide.less table { font-size: .82em }
.wide.small table { font-size: .74em }
.wide.tiny table { font-size: .66em }
td.long, th.long { overflow-wrap: anywhere }
.broken table { table-layout: fixed }
.broken td, .broken th { overflow-wrap: anywhere; white-space: normal;
  padding: .3em .15em }
.short { break-inside: avoid }
.wide.turned { page: turned }
.wide.turned > :first-child { margin-top: 0 }
li.task { list-style: none; text-indent: -1.2em }
li > ul, li > ol { margin-bottom: .2em; text-indent: 0 }
li > pre, li > blockquote { margin: .35em 0 .6em }
del { color: #566573 }
img.formula { max-width: 100% }
.formula.display { text-align: center; margin: 0 0 .9em; font-size: 1.08em;
  break-inside: avoid }
span.formula.display { display: block }
.formula.as-text { font-family: "DejaVu Sans", FONTS; font-style: italic }
.note { color: #566573; font-size: .85em }
.missing { color: #a4262c; background: #fdf1f1; padding: 0 .3em }
.footnote { font-size: .88em; color: #44525f }
.admonition { border-left: 3pt solid LINK; background: #f3f7fb;
  padding: .5em .9em; margin: 0 0 1em; break-inside: avoid }
.admonition-title { font-weight: 700; margin-bottom: .2em }
.admonition > :last-child { margin-bottom: 0 }
nav.contents { margin-bottom: 1.5em; AFTERTOC }
.contents-title { margin-top: 0; bookmark-level: none }
nav.contents p { margin: .2em 0 }
nav.contents a { color: inherit }
nav.contents a::after { content: leader(". ") " " target-counter(attr(href),
  page); color: #566573 }
nav.contents .level1 { font-weight: 600; margin-top: .5em }
nav.contents .level2 { padding-left: 1.2em }
nav.contents .level3 { padding-left: 2.4em; color: #44525f }
nav.contents .level2[dir=rtl] { padding: 0 1.2em 0 0 }
nav.contents .level3[dir=rtl] { padding: 0 2.4em 0 0 }
.toc ul { list-style: none }
dt { font-weight: 600 } dd { margin: 0 0 .5em 1.4em }
.k, .kn, .kd, .kr, .kc, .ow, .kt, .nt { color: #7a3e9d }
.s, .s1, .s2, .sd, .se, .si, .sa, .sb { color: #2f7d32 }
.c, .c1, .cm, .ch, .cp { color: #7b8794; font-style: italic }
.mi, .mf, .m, .mh, .il { color: #b35c00 }
.nf, .nc, .fm, .nn { color: #1c5fa8 }
.nb, .bp { color: #0f7285 }
.o, .p { color: #44525f }
"""

THEMES = {
    "plain": "",
    "report": """
header.title { padding: 0 0 1.1em; border-bottom: 2.5pt solid INK }
h2 { padding-bottom: .2em; border-bottom: .75pt solid #dde3e8 }
thead th { background: #eaf0f6 }
""",
    "compact": """
html { font-size: 8.5pt; line-height: 1.38 }
h1, h2, h3, h4 { margin: 1em 0 .35em }
h1.document-title { font-size: 1.8em }
header.title { margin-bottom: 1em }
p, ul, ol { margin-bottom: .5em }
table { margin-bottom: .7em } th, td { padding: .2em .45em }
""",
}
INKS = {"plain": ("#1c2733", "#1c5fa8", "#c3ccd4"),
        "report": ("#16406e", "#1c5fa8", "#9db8d2"),
        "compact": ("#1c2733", "#1c5fa8", "#c3ccd4")}


def page_rules(options, short, long):
    theme = options["theme"]
    margin = MARGINS[theme]
    top = margin + (4 if options["header"] else 0)
    footer = css_text(options["footer"], options)
    small = "font-size: 8pt; color: #6b7885"
    rules = (f"@page {{ size: {short}mm {long}mm; "
             f"margin: {top}mm {margin}mm {margin}mm; "
             f"@bottom-left {{ content: {footer}; {small}; "
             "white-space: nowrap } "
             "@bottom-right { content: counter(page) \" / \" counter(pages); "
             f"{small} }}")
    if options["header"]:
        header = css_text(options["header"], options)
        rules += (f" @top-left {{ content: {header}; {small}; "
                  "white-space: nowrap }")
    rules += " }"
    if long > short:
        rules += f"\n@page turned {{ size: {long}mm {short}mm }}"
    return rules


def looks(options):
    short, long = SIZES[options["page_size"]]
    if options["landscape"]:
        short, long = long, short
    theme = options["theme"]
    ink, link, rule = INKS[theme]
    text = BASE + THEMES[theme]
    for name, value in (
            ("FONTS", FONTS), ("LINK", link), ("INK", ink), ("RULE", rule),
            ("IMAGE", str(round(long - 2 * MARGINS[theme] - 30))),
            ("AFTERTOC", "break-after: page" if theme == "report" else "")):
        text = text.replace(name, value)
    return page_rules(options, short, long) + text


# ---- East Asian fonts -------------------------------------------------------

EAST = {"ja": "JP", "ko": "KR", "zh-Hans": "SC"}
HEAVY = ("h1", "h2", "h3", "h4", "h5", "h6", "th", "dt", "caption")


def find_font(family, weight):
    """Where a face is: its file and its number in it; None for none."""
    try:
        out = subprocess.run(
            ["fc-match", "-f", "%{family}\n%{file}\n%{index}",
             f"{family}:weight={weight}"], check=True, capture_output=True,
            text=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        return None
    return (out[1], int(out[2]) & 0xffff) if family in out[0] else None


def cut_font(source, letters, path):
    """Writes a copy of a face with only these letters. Tables for vertical
    text and alternative shapes take most of the time, and are left out."""
    from fontTools import subset
    from fontTools.ttLib import TTFont
    font = TTFont(source[0], fontNumber=source[1], lazy=True,
                  recalcBBoxes=False, recalcTimestamp=False)
    cutter = subset.Subsetter(subset.Options(
        ignore_missing_glyphs=True, desubroutinize=True, hinting=False,
        layout_features=[], drop_tables=[
            *subset.Options._drop_tables_default, "GSUB", "GPOS", "GDEF",
            "BASE", "VORG", "vhea", "vmtx"]))
    cutter.populate(text=letters + " ")
    cutter.subset(font)
    font.save(path)


def east_letters(whole):
    """(language, weight) -> the East Asian letters set in it."""
    found = {}
    for node in whole.iter(*BLOCKS):
        if node.get("lang") not in EAST:
            continue
        heavy = (node.tag in HEAVY or node.get("class") == "level1"
                 or node.find(".//strong") is not None
                 or node.find(".//b") is not None)
        for weight in (400, 700) if heavy else (400,):
            found.setdefault((node.get("lang"), weight), set()).update(
                c for c in node.text_content() if 0x1100 <= ord(c) < 0x1f000
                and unicodedata.east_asian_width(c) in "WF")
    return found


def east_fonts(whole, folder):
    """Rules for small copies of the fonts with 65,000 letters that hold only
    the letters in use: laying out and writing with them is many times
    quicker, and so is the PDF to open."""
    rules = []
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    for (language, weight), letters in sorted(east_letters(whole).items()):
        name = EAST[language]
        source = find_font("Noto Sans CJK " + name,
                           200 if weight == 700 else 80)
        if source is None or not letters:
            continue
        path = os.path.join(folder, f"{name}-{weight}.otf")
        cut_font(source, "".join(sorted(letters)), path)
        rules.append(f'@font-face {{ font-family: "East {name}"; '
                     f"font-weight: {weight}; src: url(file://{path}) }}")
    return "\n".join(rules)


# ---- to PDF -----------------------------------------------------------------

class Collect(logging.Handler):
    """What WeasyPrint could not load, for the answer."""

    def emit(self, record):
        text = record.getMessage()
        if record.levelno >= logging.ERROR and "Failed to load" in text:
            warn(text.replace("file://" + ROOT + "/", "")[:200])


def allowed(url):
    """The address to open: only what is below /mnt/data, in the text itself,
    or our own fonts."""
    if url.startswith("data:") or url.startswith(own_files):
        return url
    path = local_path(url)
    if path is None or not os.path.isfile(path):
        raise ValueError("only files below /mnt/data can be used")
    return "file://" + path


def make_fetcher():
    """What WeasyPrint opens addresses with: an object since version 68, a
    function before."""
    from weasyprint import urls
    if not hasattr(urls, "URLFetcher"):
        return lambda url, *_, **__: urls.default_url_fetcher(allowed(url))

    class Fetcher(urls.URLFetcher):
        def fetch(self, url, headers=None):
            return super().fetch(allowed(url), headers)

    return Fetcher(allowed_protocols=("file", "data"), allow_redirects=False)


def lay_out(whole, styles, options, folder):
    from weasyprint import CSS, HTML
    from weasyprint.text.fonts import FontConfiguration
    logger = logging.getLogger("weasyprint")
    logger.handlers = [Collect()]
    logger.propagate = False
    fonts = FontConfiguration()
    fetcher = make_fetcher()
    sheets = [CSS(string=s, font_config=fonts, url_fetcher=fetcher)
              for s in (east_fonts(whole, folder), looks(options), *styles)]

    def render():
        made = HTML(string=document_text(whole, options),
                    base_url="file://" + ROOT + "/", url_fetcher=fetcher)
        return made.render(stylesheets=sheets, font_config=fonts)

    laid = render()
    wide = overflowing_tables(laid.pages)
    if wide:
        for table in whole.iter("table"):
            if table.get("data-table") in wide:
                frame = table.getparent()
                frame.set("class", frame.get("class") + " broken")
        laid = render()
        for name in sorted(overflowing_tables(laid.pages)):
            warn(f"table {name.split('.')[0]} does not fit; some of its text "
                 "is outside its cell")
    return laid


def write_pdf(laid, options):
    path = os.path.join(ROOT, options["path"])
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".report-",
                                         delete=False) as f:
            try:
                laid.write_pdf(f)
                f.flush()
                os.chmod(f.name, 0o644)
                os.replace(f.name, path)
            except BaseException:
                os.unlink(f.name)
                raise
    except OSError as e:
        raise Fault(f"the PDF could not be written: {e.strerror}",
                    "Give another path, or make room.") from e
    return path


def shown_page(pages):
    """The number of the first page with contents of the text: not the title
    and the table of contents, nor a cover with a line or two."""
    best, most = 1, -1
    for number, page in enumerate(pages, 1):
        letters, pending = 0, [(page._page_box, False)]
        while pending:
            box, inside = pending.pop()
            tag = getattr(box, "element_tag", "") or ""
            inside = inside or tag == "main"
            if inside and tag in ("table", "img", "svg", "pre"):
                letters += PREVIEW_LETTERS
            if inside:
                letters += len(getattr(box, "text", None) or "")
            pending += [(c, inside) for c in getattr(box, "children", ())]
        if letters >= PREVIEW_LETTERS:
            return number
        if letters > most:
            best, most = number, letters
    return best


def preview(path, page):
    """One page as a PNG, small enough to be shown; b"" for none."""
    for width in PREVIEW_WIDTHS:
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "page")
            try:
                subprocess.run(
                    ["pdftoppm", "-png", "-f", str(page), "-l", str(page),
                     "-singlefile", "-scale-to-x", str(width), "-scale-to-y",
                     "-1", path, out], check=True, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL)
                with open(out + ".png", "rb") as f:
                    image = f.read()
            except (OSError, subprocess.CalledProcessError):
                return b""
        if len(image) <= PREVIEW_BYTES:
            return image
    return b""


def make(options, folder):
    global own_files
    own_files = f"file://{folder}/"
    stage("reading the text")
    styles = []
    if options["format"] == "markdown":
        body = body_of_markdown(clean(options["text"]))
    else:
        body, styles = body_of_html(clean(options["text"]))
    arrange(body, options)
    whole = compose(body, options)
    stage("laying out the pages")
    laid = lay_out(whole, styles, options, folder)
    stage(f"writing {len(laid.pages)} pages")
    page = shown_page(laid.pages)
    path = write_pdf(laid, options)
    stage("drawing the preview")
    image = preview(path, page)
    return {"ok": True, "path": options["path"], "pages": len(laid.pages),
            "size": os.path.getsize(path), "title": options["title"],
            "preview_page": page, "warnings": warnings}, image


def main():
    options = json.loads(sys.stdin.buffer.readline())
    options["text"] = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        with tempfile.TemporaryDirectory() as folder:
            answer, image = make(options, folder)
    except Fault as e:
        answer, image = {"ok": False, "error": str(e), "hint": e.hint}, b""
    except RecursionError:
        answer, image = {"ok": False, "error": "the text is nested too deeply",
                         "hint": "Use fewer levels of lists, quotes or "
                         "elements."}, b""
    except ImportError as e:
        answer, image = {
            "ok": False,
            "error": f"this runtime lacks the Python module {e.name}",
            "hint": "Use a session of a pool with the standard runtime."}, b""
    print(json.dumps(answer, ensure_ascii=False))
    print(base64.b64encode(image).decode())


if __name__ == "__main__":
    main()
