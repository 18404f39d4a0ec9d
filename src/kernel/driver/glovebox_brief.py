# SPDX-License-Identifier: Apache-2.0
"""A short text for each display, for readers that see only text.

Runs in the kernel process. Most displays have a text/plain that says what
they show. Where it does not (a page of HTML, a plotly figure) or is long (a
table), the bundle gets one more entry, BRIEF. What no text can show is saved
below /mnt/data, a few files for each cell, and BRIEF names the file.
"""
import hashlib
import html.parser
import json
import os
import re
import reprlib
import sys

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

BRIEF = "text/x.glovebox.brief"
PLOTLY = "application/vnd.plotly.v1+json"

TEXT_MAX = 4000  # characters
ROWS_MAX, COLUMNS_MAX, CELL_MAX = 20, 12, 60
HTML_MAX = 1 << 20  # characters that are searched for text
FILES_MAX = 5  # saved by one cell
NUMBER_MAX = 9999  # of a saved file
KNOWN_MAX = 1000  # files whose contents are remembered
TITLE_MAX = 100
FOLDER = "/mnt/data"

# What repr() gives for a class without one, and the publisher for a bundle.
_PLACEHOLDER = re.compile(r"<[^\n]*( object| at 0x[0-9a-fA-F]+)>|<\w+/[^ ]+>")
_SPACES = re.compile(r"\s+")
_LINES = re.compile(r"\n\s*\n")


def cut(text):
    """The beginning of a text that is too long."""
    if len(text) <= TEXT_MAX:
        return text
    return "%s\n… %d more characters" % (text[:TEXT_MAX],
                                         len(text) - TEXT_MAX)


# --- tables ---------------------------------------------------------------

def _cell(value):
    if isinstance(value, float):
        text = "%.6g" % value if value == value else "NaN"
    elif isinstance(value, str):
        text = value[:4 * CELL_MAX]  # Some are long, and spaces go next.
    elif isinstance(value, (list, dict, set, frozenset, bytes)):
        text = reprlib.repr(value)
    else:
        text = str(value)
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= CELL_MAX else text[:CELL_MAX - 1] + "…"


def _label(value):
    """Of a row or column; those with levels are tuples."""
    if isinstance(value, tuple):
        return " / ".join(map(_cell, value))
    return _cell(value)


def _more(count, what):
    return "… %d more %s%s" % (count, what, "" if count == 1 else "s")


def _markdown(frame, rows):
    columns = min(frame.shape[1], COLUMNS_MAX)
    part = frame.iloc[:rows, :columns]
    corner = tuple(name for name in part.index.names if name is not None)
    lines = [[_label(name) for name in (corner, *part.columns)],
             ["---"] * (columns + 1)]
    for label, row in zip(part.index, part.itertuples(index=False, name=None)):
        lines.append([_label(label), *map(_cell, row)])
    text = ["| " + " | ".join(line) + " |" for line in lines]
    left = [_more(count, what) for count, what in (
        (frame.shape[0] - len(part), "row"),
        (frame.shape[1] - columns, "column")) if count > 0]
    if left:
        text += ["", ", ".join(left)]
    return "\n".join(text)


def table(value):
    """A pandas table as Markdown, or None for anything else."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not type(value).__module__.startswith("pandas."):
        return None
    try:
        if isinstance(value, pandas.Series):
            value = value.to_frame("" if value.name is None else value.name)
        if not isinstance(value, pandas.DataFrame):
            return None
        rows = ROWS_MAX
        text = _markdown(value, rows)
        while len(text) > TEXT_MAX and rows > 1:
            rows //= 2
            text = _markdown(value, rows)
        return cut(text)
    except Exception:
        return None  # text/plain is there as well.


# --- HTML -----------------------------------------------------------------

class _Reader(html.parser.HTMLParser):
    """Collects the text of a page and whether it has more than text."""

    hidden = frozenset(("script", "style", "head", "title", "template"))
    active = frozenset(("script", "iframe", "canvas", "svg", "video", "audio",
                        "object", "embed", "img"))
    blocks = frozenset(("p", "div", "br", "tr", "table", "ul", "ol", "li",
                        "pre", "h1", "h2", "h3", "h4", "h5", "h6", "hr",
                        "section", "article", "blockquote", "details", "dt",
                        "dd", "caption"))

    def __init__(self):
        super().__init__()
        self.parts = []
        self.depth = 0
        self.is_code = False
        self.is_active = False

    def handle_starttag(self, tag, attrs):
        self.is_active |= tag in self.active
        self.is_code |= tag == "pre"
        if tag in self.hidden:
            self.depth += 1
        elif tag in self.blocks:
            self.parts.append("\n- " if tag == "li" else "\n")

    def handle_startendtag(self, tag, attrs):
        self.is_active |= tag in self.active
        if tag in self.blocks:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        self.is_code &= tag != "pre"
        if tag in self.hidden:
            self.depth = max(self.depth - 1, 0)
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        elif tag in self.blocks:
            self.parts.append("\n")

    def handle_data(self, data):
        if self.depth > 0:
            return
        if not self.is_code:
            data = _SPACES.sub(" ", data)
            if not self.parts or self.parts[-1][-1:].isspace():
                data = data.lstrip()
        self.parts.append(data)


def html_text(page):
    """(text of a page, whether it has more to show than that)."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    lines = "".join(reader.parts).split("\n")
    # Cells of a table were each ended by a bar.
    text = "\n".join(line.rstrip().removesuffix("|").rstrip()
                     for line in lines)
    return _LINES.sub("\n", text).strip(), reader.is_active


# --- files ----------------------------------------------------------------

class Files:
    """Saves what text cannot show, under the first free number. What was
    saved before and is still there is named again."""

    def __init__(self):
        self.left = FILES_MAX
        self.known = {}  # names by a hash of what was shown

    def begin(self):
        """A cell begins."""
        self.left = FILES_MAX

    def save(self, stem, suffix, data):
        """The file's name; raises OSError."""
        for number in range(1, NUMBER_MAX + 1):
            name = "%s-%d.%s" % (stem, number, suffix)
            path = os.path.join(FOLDER, name)
            try:
                file = open(path, "x", encoding="utf-8",
                            errors="backslashreplace")
            except FileExistsError:
                continue
            try:
                with file:
                    file.write(data)
            except OSError:
                os.unlink(path)  # Half of it is of no use.
                raise
            return name
        raise OSError("there are %d files of this name" % NUMBER_MAX)

    def describe(self, what, stem, shown, make):
        """Saves make(), which gives (suffix, text) from the text that was
        shown, and says where."""
        key = hashlib.sha256(shown.encode("utf-8", "replace")).digest()
        name = self.known.get(key)
        if name is not None and os.path.exists(os.path.join(FOLDER, name)):
            return "[%s saved as %s]" % (what, name)
        if self.left == 0:
            return "[%s not saved: one cell saves at most %d]" % (
                what, FILES_MAX)
        try:
            name = self.save(stem, *make(shown))
        except OSError as exc:
            return "[%s not saved: %s]" % (what, exc.strerror or exc)
        self.left -= 1
        if len(self.known) >= KNOWN_MAX:
            self.known.clear()
        self.known[key] = name
        return "[%s saved as %s]" % (what, name)


# --- bundles --------------------------------------------------------------

def _figure_name(figure):
    """`interactive figure "Sales" (bar)`, as far as the figure says."""
    name = "interactive figure"
    try:
        title = figure.get("layout", {}).get("title", "")
        title = title.get("text", "") if isinstance(title, dict) else title
        if title:
            name += ' "%s"' % " ".join(str(title).split())[:TITLE_MAX]
        kinds = dict.fromkeys(str(trace.get("type", "scatter"))
                              for trace in figure.get("data", ()))
        if kinds:
            name += " (%s)" % ", ".join(list(kinds)[:5])
    except Exception:
        pass  # Whatever it is, it is a figure.
    return name


def _figure_file(text):
    """A page that needs no network, or the data where plotly is absent."""
    try:
        import plotly.io
    except ImportError:
        return "json", text
    figure = json.loads(text)
    parts = {key: figure[key] for key in ("data", "layout", "frames")
             if key in figure}
    return "html", plotly.io.to_html(
        parts, config=figure.get("config"), include_plotlyjs=True,
        full_html=True, validate=False)


def _page_file(text):
    return "html", text


def _html_brief(page, files):
    if len(page) > HTML_MAX:
        return files.describe("page", "output", page, _page_file)
    text, is_active = html_text(page)
    if not is_active:
        return cut(text) if text else None
    where = files.describe("page", "output", page, _page_file)
    return cut(where + "\n" + text if text else where)


def _brief(bundle, files):
    if any(mime.startswith("image/") for mime in bundle):
        return None
    figure = bundle.get(PLOTLY)
    if isinstance(figure, dict):
        from glovebox_frames import encode_value  # which imports this file
        return files.describe(_figure_name(figure), "figure",
                              encode_value(PLOTLY, figure).decode(),
                              _figure_file)
    plain = bundle.get("text/plain", "")
    if isinstance(plain, str) and plain and not _PLACEHOLDER.fullmatch(plain):
        return None
    for mime in ("text/markdown", "text/latex"):
        if isinstance(bundle.get(mime), str):
            return cut(bundle[mime])
    if "application/json" in bundle:
        return cut(json.dumps(bundle["application/json"], ensure_ascii=False,
                              default=str))
    page = bundle.get("text/html")
    return _html_brief(page, files) if isinstance(page, str) else None


def complete(bundle, files):
    """The bundle with BRIEF, where it needs it."""
    if len(bundle) == 1 and "text/plain" in bundle or BRIEF in bundle:
        return bundle
    try:
        text = _brief(bundle, files)
    except Exception:
        return bundle  # Odd values trip it; the rest is shown as it is.
    return bundle if text is None else {**bundle, BRIEF: text}
