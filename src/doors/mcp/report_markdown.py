# SPDX-License-Identifier: Apache-2.0
"""GitHub-flavoured Markdown, and its formulas, for reports.

The first part of the program in report.py. Python-Markdown parses the text;
this file adds what models write and Python-Markdown does not read: lists and
tables that follow a line of text, lists nested by any indent, fenced code
inside lists and quotes, task lists, ~~strike~~, bare links, formulas.
"""
import base64
import html
import json
import re
import sys

try:
    import markdown
    from lxml import html as lx
    from markdown.blockprocessors import BlockProcessor, BlockQuoteProcessor
    from markdown.extensions import Extension
    from markdown.extensions.tables import TableProcessor
    from markdown.inlinepatterns import (InlineProcessor,
                                         SimpleTagInlineProcessor,
                                         SubstituteTagInlineProcessor)
    from markdown.preprocessors import Preprocessor
    from markdown.util import AtomicString, nearing_recursion_limit
    from xml.etree import ElementTree
except ImportError as e:
    print(json.dumps({
        "ok": False, "error": f"this runtime lacks the Python module {e.name}",
        "hint": "Use a session of a pool with the standard runtime."}))
    sys.exit(0)

warnings = []
WARNINGS_MAX = 20


def warn(text):
    if text not in warnings and len(warnings) < WARNINGS_MAX:
        warnings.append(text)


# ---- blocks -----------------------------------------------------------------

ITEM = re.compile(r"( *)([-+*]|\d{1,9}[.)])( +(?=\S)| *$)(.*)", re.S)
RULE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *$")
HEADING = re.compile(r" {0,3}#{1,6}(?: |$)")
NO_HEADING = re.compile(r" {0,3}#{1,6}[^ #]")
QUOTE = re.compile(r" {0,3}>")
DELIMITER = re.compile(r" *(?=[^|]*\|)\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$")
STASHED = re.compile("[\x02]wzxhzdk:\\d+[\x03]")


def indent_of(line):
    return len(line) - len(line.lstrip(" "))


def list_item(line):
    """The parts of a line that begins a list item, or None."""
    return None if RULE.match(line) else ITEM.match(line)


def interrupts_paragraph(item):
    """A number other than 1, or a lone marker, is more likely prose."""
    return bool(item[4]) and (not item[2][0].isdigit()
                              or item[2][:-1] == "1")


def separate_blocks(lines):
    """Adds the empty lines that Python-Markdown needs between blocks. Leaves
    the contents of list items alone: each is parsed on its own later."""
    out = []
    before = ""  # kind of the line before: text, list, quote, table or none
    item_indent = None  # of the contents of the list that is open
    marker = ""  # of the last item
    for number, line in enumerate(lines):
        if not line.strip():
            out.append("")
            if before in ("table", "quote", "text"):
                before = ""
            continue
        indent, item = indent_of(line), list_item(line)
        if item_indent is not None and indent >= item_indent:
            out.append(line)
            continue
        kind = "text"
        if item and indent <= 3:
            kind = "list" if (before in ("", "list", "quote", "table")
                              or interrupts_paragraph(item)) else "text"
        elif HEADING.match(line) or STASHED.fullmatch(line.strip()):
            kind = "single"
        elif RULE.match(line) and not (
                before == "text" and line.strip().strip("-") == ""):
            kind = "single"
        elif QUOTE.match(line):
            kind = "quote"
        elif "|" in line and (before == "table" or (
                number + 1 < len(lines) and DELIMITER.match(lines[number + 1])
                and indent_of(lines[number + 1]) <= 3)):
            kind = "table"
        elif (before == "quote" or before == "list") and out and out[-1]:
            kind = before  # a paragraph that goes on without its marker
        if NO_HEADING.match(line):
            line = line.replace("#", "\\#", 1)
        if kind != before and out and out[-1] and before:
            out.append("")
        if kind == "list" and item:
            # A list of another kind is a block of its own.
            if before == "list" and out and out[-1] and (
                    item[2][0].isdigit() != marker[0].isdigit()):
                out.append("")
            marker = item[2]
        if kind == "single" and out and out[-1]:
            out.append("")
        out.append(line)
        if kind == "single":
            out.append("")
            kind = ""
        item_indent = (indent + 2 if kind == "list" and item
                       else item_indent if kind == "list" else None)
        before = kind
    return out


class Lists(BlockProcessor):
    """Ordered, unordered and task lists. A line belongs to an item when it is
    indented by two spaces more than the item's marker, or more."""

    def test(self, parent, block):
        item = list_item(block.split("\n", 1)[0])
        return bool(item) and len(item[1]) <= 3 and not (
            nearing_recursion_limit())

    def run(self, parent, blocks):
        first = list_item(blocks[0].split("\n", 1)[0])
        ordered = first[2][0].isdigit()
        items, loose = self.take_items(blocks, ordered)
        node = ElementTree.SubElement(parent, "ol" if ordered else "ul")
        if ordered and int(first[2][:-1]) != 1:
            node.set("start", str(int(first[2][:-1])))
        self.parser.state.set("looselist" if loose else "list")
        for text in items:
            entry = ElementTree.SubElement(node, "li")
            task = re.match(r"\[([ xX])\](?: +|$)", text)
            if task:
                entry.set("class", "task")
                text = ("\u2610" if task[1] == " " else "\u2611"
                        ) + " " + text[task.end():]
            self.parser.parseChunk(entry, text)
        self.parser.state.reset()

    def take_items(self, blocks, ordered):
        """Takes the lines of one list off the blocks: the text of each item,
        and whether an empty line separates items or their paragraphs."""
        items, inside = [], 0
        lines = blocks.pop(0).split("\n")
        while lines:
            for number, line in enumerate(lines):
                item, indent = list_item(line), indent_of(line)
                if not line.strip():
                    items[-1][1].append("")
                elif item and (not items or indent < inside):
                    if item[2][0].isdigit() != ordered:
                        blocks.insert(0, "\n".join(lines[number:]))
                        return self.finish(items)
                    space = len(item[3]) if 0 < len(item[3]) <= 4 else 1
                    items.append((len(item[1]) + len(item[2]) + space,
                                  [item[4]]))
                    inside = indent + 2
                else:
                    items[-1][1].append(line)
            lines = []
            following = blocks[0].lstrip("\n") if blocks else ""
            item = list_item(following.split("\n", 1)[0])
            if following.strip() and (
                    indent_of(following) >= inside
                    or item and item[2][0].isdigit() == ordered):
                lines = ["", *blocks.pop(0).split("\n")]
            elif blocks and not following.strip() and len(blocks) > 1:
                blocks.pop(0)
                lines = [""]
        return self.finish(items)

    @staticmethod
    def finish(items):
        texts, loose = [], False
        for number, (width, lines) in enumerate(items):
            if number + 1 < len(items) and not lines[-1]:
                loose = True
            rest = [n for n in lines[1:] if n.strip()]
            cut = min(width, indent_of(rest[0])) if rest and (
                indent_of(rest[0]) >= 2) else width
            lines = [lines[0]] + [n[min(indent_of(n), cut):]
                                  for n in lines[1:]]
            while lines and not lines[-1]:
                lines.pop()
            for at in range(1, len(lines)):
                if (not lines[at - 1] and lines[at]
                        and indent_of(lines[at]) < 2
                        and not list_item(lines[at])):
                    loose = True
            texts.append("\n".join(lines))
        return texts, loose


class Quotes(BlockQuoteProcessor):
    """An empty line ends a quote; the next one is another."""

    def lastChild(self, parent):
        return None


class Tables(TableProcessor):
    """Tables that warn of cells they have no column for."""

    def _build_row(self, row, parent, align):
        cells = self._split_row(row)
        lost = [c.strip() for c in cells[len(align):] if c.strip()]
        if lost:
            warn("a table row has more cells than the table has columns; left "
                 f"out: {', '.join(lost)[:120]}")
        super()._build_row(row, parent, align)
        for cell in parent[-1]:
            # Inside code a pipe is escaped as well, for the table's sake.
            cell.text = re.sub(r"`[^`]*`",
                               lambda m: m[0].replace("\\|", "|"),
                               cell.text or "")


class Fences(Preprocessor):
    """Fenced code, wherever it is, and formulas on lines of their own."""

    OPEN = re.compile(r"((?: {0,3}> ?)*(?: *(?:[-+*]|\d{1,9}[.)]) +)? *)"
                      r"(`{3,}(?=[^`]*$)|~{3,})(.*)$")
    FORMULA = re.compile(r"((?: {0,3}> ?)*(?: *(?:[-+*]|\d{1,9}[.)]) +)? *)"
                         r"(\$\$|\\\[|\\begin\{(\w+\*?)\})(.*)$")
    FORMULA_LINES = 200

    def run(self, lines):
        out, at = [], 0
        while at < len(lines):
            found = self.OPEN.match(lines[at])
            if found:
                at = self.take_code(lines, at, found, out)
                continue
            found = self.FORMULA.match(lines[at])
            end = self.formula_end(lines, at, found) if found else None
            if end:
                out.append(found[1] + self.md.htmlStash.store(
                    formula_html(end[1], True)))
                at = end[0]
            else:
                out.append(lines[at])
                at += 1
        return self.open_html(out)

    def take_code(self, lines, at, found, out):
        """Stores the code and returns the number of the line behind it."""
        prefix, fence, info = found[1], found[2], found[3].strip()
        depth, begin, code = prefix.count(">"), at, []
        width = len(re.sub(r".*>", "", prefix))
        closed = False
        for at in range(begin + 1, len(lines)):
            line = lines[at]
            if depth:
                quoted = re.match(r"(?: {0,3}> ?){%d}" % depth, line)
                if not quoted:
                    at -= 1
                    closed = True
                    break
                line = line[quoted.end():]
            if re.fullmatch(r" *%s{%d,} *" % (re.escape(fence[0]),
                                              len(fence)), line):
                closed = True
                break
            code.append(line[min(indent_of(line), width):])
        while not closed and code and not code[-1].strip():
            code.pop()
        if not closed:
            warn(f"the code block that begins with {fence}{info[:40]} never "
                 "ends; all that follows is shown as code")
        language = re.match(r"\{?\.?([\w+#.-]*)", info)[1].lower()
        text = "\n".join(code)
        stored = formula_html(text, True) if language == "math" else (
            f'<pre><code class="language-{html.escape(language)}">'
            f"{html.escape(text, False)}\n</code></pre>")
        out.append(prefix + self.md.htmlStash.store(stored))
        return at + 1

    def formula_end(self, lines, at, found):
        """The line behind the formula, and its text; None when it is none."""
        if found[3] and found[3] not in ENVIRONMENTS:
            return None
        end = {"$$": "$$", "\\[": "\\]"}.get(found[2],
                                             f"\\end{{{found[3]}}}")
        quote, parts = re.match(r"(?: {0,3}> ?)*", found[1])[0], []
        for n in range(at, min(at + self.FORMULA_LINES, len(lines))):
            line = found[4] if n == at else lines[n]
            if n > at and quote:
                line = re.sub(r"^(?: {0,3}> ?)*", "", line)
            text = line.strip()
            if text.endswith(end):
                parts.append(text[:-len(end)])
                text = "\n".join(parts).strip()
                if not text or end in text:
                    return None
                return n + 1, (found[2] + text + end if found[3] else text)
            if end in text:
                return None
            parts.append(text)
        return None

    def open_html(self, lines):
        """Markdown inside a block of HTML is read when an empty line follows
        the tag, as on GitHub: the tags become blocks of their own."""
        names = r"(div|details|section|center|article|aside)"
        begin = re.compile(rf"<{names}(?:\s[^<>]*)?>"
                           r"(?:\s*<summary>.*</summary>)?\s*$")
        end = re.compile(rf"</{names}>\s*$")
        opened, out = [], []
        for at, line in enumerate(lines):
            found = begin.match(line)
            if found and not "".join(lines[at + 1:at + 2]).strip():
                opened.append(found[1])
            else:
                found = end.match(line)
                if not found or not opened or opened[-1] != found[1]:
                    out.append(line)
                    continue
                opened.pop()
            out += ["", self.md.htmlStash.store(line.strip()), ""]
        return out


# ---- inside a line ----------------------------------------------------------

class Links(InlineProcessor):
    """Bare addresses."""

    ANCESTOR_EXCLUDES = ("a",)

    def handleMatch(self, m, data):
        url = m[1]
        while url and (url[-1] in "?!.,:;*_~'\"" or (
                url[-1] == ")" and url.count(")") > url.count("("))):
            url = url[:-1]
        if len(url) < 8:
            return None, None, None
        node = ElementTree.Element("a")
        node.set("href", url if "://" in url else "http://" + url)
        node.text = AtomicString(url)
        return node, m.start(1), m.start(1) + len(url)


class Formulas(InlineProcessor):
    """$…$, $$…$$, \\(…\\) and \\[…\\] inside a line."""

    MATH = re.compile(r"[\\^_=+<>]|^\s*[a-zA-Z]\s*$")

    def handleMatch(self, m, data):
        text = next(g for g in m.groups() if g is not None)
        escaped = m[0].startswith("\\")
        if "\x02" in text or escaped and not self.MATH.search(text):
            return None, None, None
        display = m[0].startswith(("$$", "\\["))
        node = ElementTree.Element("span")
        node.set("class", "formula display" if display else "formula")
        node.text = AtomicString(text)
        return node, m.start(), m.end()


class Github(Extension):
    def extendMarkdown(self, md):
        md.ESCAPED_CHARS = list({*md.ESCAPED_CHARS, *"$~|<&\"'/:;=?@^,%"})
        parser = md.parser
        parser.parseChunk = lambda parent, text: parser.parseBlocks(
            parent, "\n".join(separate_blocks(text.split("\n"))).split("\n\n"))
        blocks = parser.blockprocessors
        for name in ("indent", "olist", "ulist"):
            blocks.deregister(name)
        blocks.register(Lists(parser), "github_lists", 95)
        blocks.register(Quotes(parser), "quote", 20)
        blocks.register(Tables(parser, {"use_align_attribute": False}),
                        "github_tables", 76)
        md.preprocessors.register(Fences(md), "github_fences", 25)
        lines = md.inlinePatterns
        lines.register(Formulas(
            r"(?<![\\$])\$\$(?=[^\s$])([^$]+?)(?<=[^\s\\])\$\$(?!\$)"
            r"|(?<![\\$\w])\$(?=[^\s$])((?:\\.|[^\\$\n])+?)(?<!\s)\$(?![\d$])"
            r"|\\\((.{1,500}?)\\\)|\\\[(.{1,500}?)\\\]", md),
            "github_formulas", 185)
        lines.register(SubstituteTagInlineProcessor(r"\\\n", "br"),
                       "github_break", 181)
        lines.register(Links(
            r"(?<![\w/@.=\"'])((?:https?://|www\.)[^\s<>\x02\x03|]+)", md),
            "github_links", 105)
        lines.register(SimpleTagInlineProcessor(
            r"(~~)(?=[^\s~])(.{1,500}?)(?<=[^\s~])~~(?!~)", "del"),
            "github_strike", 65)


ALERTS = {"note": "Note", "tip": "Tip", "important": "Important",
          "warning": "Warning", "caution": "Caution"}


def mark_alerts(body):
    """> [!NOTE] and its kin become boxes."""
    for quote in list(body.iter("blockquote")):
        first = quote[0] if len(quote) else None
        found = first is not None and first.tag == "p" and re.match(
            r"\s*\[!(\w+)\]\s*", first.text or "")
        if not found or found[1].lower() not in ALERTS:
            continue
        kind = found[1].lower()
        first.text = first.text[found.end():]
        quote.tag = "div"
        quote.set("class", f"admonition {kind}")
        title = lx.Element("p")
        title.set("class", "admonition-title")
        title.text = ALERTS[kind]
        quote.insert(0, title)
        if not first.text_content().strip() and not len(first):
            quote.remove(first)


def body_of_markdown(text):
    made = markdown.markdown(
        text, extensions=["footnotes", "def_list", "tables", "md_in_html",
                          "admonition", "toc", Github()],
        extension_configs={"toc": {"marker": "[TOC]", "title": "Contents"}},
        output_format="html")
    body = lx.fragment_fromstring(made, create_parent="main")
    for node in list(body.iter("p")):
        if not len(node) and not (node.text or "").strip():
            node.drop_tree()
    mark_alerts(body)
    return body


# ---- formulas ---------------------------------------------------------------

LINES = ("align", "align*", "aligned", "alignat", "alignat*", "gather",
         "gather*", "gathered", "split", "equation", "equation*", "eqnarray",
         "eqnarray*", "multline", "multline*")
GRIDS = {"cases": ("\\{", ""), "matrix": ("", ""), "pmatrix": ("(", ")"),
         "bmatrix": ("[", "]"), "Bmatrix": ("\\{", "\\}"),
         "vmatrix": ("|", "|"), "Vmatrix": ("\\|", "\\|"), "array": ("", "")}
ENVIRONMENTS = (*LINES, *GRIDS)
EM = 100.0  # units of the paths
FORMULA_SCALE = 1.12  # STIX is smaller than the text's font
# Commands that mathtext knows by another name, or can do without.
COMMANDS = {
    "tfrac": r"\frac", "cfrac": r"\frac", "dots": r"\ldots",
    "dotsc": r"\ldots", "dotsb": r"\cdots", "dotsm": r"\cdots",
    "implies": r"\Longrightarrow ", "iff": r"\Longleftrightarrow ",
    "lvert": "|", "rvert": "|", "lVert": r"\|", "rVert": r"\|",
    "displaystyle": "", "textstyle": "", "scriptstyle": "", "nonumber": "",
    "notag": "", "limits": "", "nolimits": "", "middle": "",
    "textbf": r"\mathbf", "bm": r"\mathbf", "boldsymbol": r"\mathbf",
    "textit": r"\mathit", "textrm": r"\text", "mbox": r"\text",
    "textnormal": r"\text", "argmax": r"\operatorname{arg\,max}",
    "argmin": r"\operatorname{arg\,min}", "lbrace": r"\{", "rbrace": r"\}",
    "bmod": r"\ \mathrm{mod}\ ", "mod": r"\ \mathrm{mod}\ ",
    "le": r"\leq", "leqslant": r"\leq", "ge": r"\geq", "geqslant": r"\geq",
    "ne": r"\neq", "lt": "<", "gt": ">", "land": r"\wedge", "lor": r"\vee",
    "colon": ":", "big": "", "Big": "", "bigg": "", "Bigg": "", "bigl": "",
    "bigr": "", "Bigl": "", "Bigr": "", "biggl": "", "biggr": "",
}
REWRITES = (
    (r"(?<!\\)%.*", ""), (r"\\label\{[^{}]*\}", ""),
    (r"\\tag\*?\{([^{}]*)\}", r"\\qquad (\1)"),
    (r"\\pmod\{([^{}]*)\}", r"\\ (\\mathrm{mod}\\ \1)"),
    (r"\\hspace\*?\{[^{}]*\}", r"\\quad "), (r"\\!", ""), (r"~", r"\\ "),
    (r"\\([a-zA-Z]+)", lambda m: COMMANDS.get(m[1], m[0])),
)


def formula_html(text, display):
    kind = "formula display" if display else "formula"
    tag = "div" if display else "span"
    return f'<{tag} class="{kind}">{html.escape(text)}</{tag}>'


class Drawing:
    """Outlines with a width, and what they need above and below the line."""

    def __init__(self, pieces=(), width=0.0, above=0.0, below=0.0):
        self.pieces, self.width = list(pieces), width
        self.above, self.below = above, below

    def add(self, other, x, y=0.0, stretch=1.0):
        self.pieces += [(v * (1, stretch) + (x, y), c)
                        for v, c in other.pieces]
        self.width = max(self.width, x + other.width)
        self.above = max(self.above, other.above * stretch + y)
        self.below = max(self.below, other.below * stretch - y)

    def svg(self):
        letters = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
        out = []
        for points, codes in self.pieces:
            last = 0
            for (x, y), code in zip(points.tolist(), codes.tolist()):
                if code == 79:
                    out.append("Z")
                else:
                    repeated = code in (3, 4) and last == code
                    out.append(f"{'' if repeated else letters[code]}"
                               f"{x:.1f} {-y:.1f}")
                # A curve's points all carry its code.
                last = code if code in (3, 4) else 0
        return (f'<svg xmlns="http://www.w3.org/2000/svg" '
                f'viewBox="0 {-self.above:.1f} {max(self.width, 1):.1f} '
                f'{max(self.above + self.below, 1):.1f}">'
                f'<path fill="#1c2733" d="{" ".join(out)}"/></svg>')


def draw_plain(text):
    """One formula without rows; ValueError when mathtext cannot draw it."""
    import matplotlib
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path
    text = " ".join(text.split())
    if not text:
        return Drawing()
    with matplotlib.rc_context({"mathtext.fontset": "stix"}):
        font = FontProperties(size=EM)
        points, codes = text_to_path.get_text_path(font, f"${text}$",
                                                   ismath=True)
        width, height, below = text_to_path.get_text_width_height_descent(
            f"${text}$", font, ismath=True)
    import numpy
    points = numpy.asarray(points, dtype=float).reshape(-1, 2)
    return Drawing([(points, numpy.asarray(codes, dtype=int))], width,
                   height - below, below)


def draw_rows(text, sides):
    """Rows ended by \\\\ and columns separated by &, around the axis. sides
    has the alignment of the columns, over and over: "l", "c", "r" or "rl"."""
    rows = [[draw_formula(cell) for cell in re.split(r"(?<!\\)&", row)]
            for row in re.split(r"\\\\(?:\[[^\]]*\])?", text) if row.strip()]
    if not rows:
        return Drawing()
    columns = max(map(len, rows))
    widths = [max((r[k].width for r in rows if k < len(r)), default=0)
              for k in range(columns)]
    made, y = Drawing(), 0.0
    heights = [(max(max(c.above for c in r), .7 * EM),
                max(max(c.below for c in r), .2 * EM)) for r in rows]
    total = sum(a + b for a, b in heights) + .35 * EM * (len(rows) - 1)
    y = total / 2 + .25 * EM
    for row, (above, below) in zip(rows, heights):
        x = 0.0
        for k, cell in enumerate(row):
            side = sides[k % len(sides)]
            space = widths[k] - cell.width
            made.add(cell, x + {"l": 0, "c": .5, "r": 1}[side] * space,
                     y - above)
            x += widths[k] + (0 if side == "r" else EM)
        y -= above + below + .35 * EM
    return made


def draw_formula(text):
    """A formula with at most the environments of ENVIRONMENTS."""
    begin = re.search(r"\\begin\{(\w+\*?)\}", text)
    if not begin:
        if re.search(r"\\\\", text):
            return draw_rows(text, "c")
        return draw_plain(text)
    name = begin[1]
    end = re.search(r"\\end\{%s\}" % re.escape(name), text[begin.end():])
    if name not in ENVIRONMENTS or not end:
        raise ValueError(f"\\begin{{{name}}}")
    inner = text[begin.end():begin.end() + end.start()]
    if name in ("array", "alignat", "alignat*"):
        inner = re.sub(r"^\s*\{[^{}]*\}", "", inner)
    made = Drawing()
    made.add(draw_plain(text[:begin.start()]), 0)
    if name in LINES:
        grid, left, right = draw_rows(inner, "rl"), "", ""
    else:
        grid = draw_rows(inner, "l" if name == "cases" else "c")
        left, right = GRIDS[name]
    for fence, drawn in ((left, None), (None, grid), (right, None)):
        if drawn is None and fence:
            drawn = draw_plain(fence)
            stretch = max(1.0, 1.1 * (grid.above + grid.below)
                          / max(drawn.above + drawn.below, 1))
            centre = (drawn.above - drawn.below) / 2 * stretch
            made.add(drawn, made.width + .1 * EM, .25 * EM - centre, stretch)
        elif drawn is not None:
            made.add(drawn, made.width + (.15 * EM if made.width else 0))
    rest = draw_formula(text[begin.end() + end.end():])
    made.add(rest, made.width + (.2 * EM if rest.width else 0))
    return made


def formula_text(text):
    """A formula as plain text, for one that cannot be drawn."""
    try:
        from matplotlib._mathtext_data import tex2uni
    except ImportError:
        tex2uni = {}
    for _ in range(8):
        text, changed = re.subn(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}",
                                r"(\1)/(\2)", text)
        text, roots = re.subn(r"\\sqrt\{([^{}]*)\}", "\u221a(\\1)", text)
        if not changed + roots:
            break
    text = re.sub(r"\\(?:begin|end)\{[^{}]*\}|\\(?:left|right|displaystyle)"
                  r"(?![a-zA-Z])|(?<!\\)&", " ", text)
    text = re.sub(r"\\\\", " ; ", text)
    text = re.sub(r"\\(?:text|mathrm|mathbf|operatorname|mbox)\{([^{}]*)\}",
                  r"\1", text)
    text = re.sub(r"\\([a-zA-Z]+)",
                  lambda m: chr(tex2uni[m[1]]) if m[1] in tex2uni else m[1],
                  text)
    text = re.sub(r"([_^])\{(\w)\}", r"\1\2", text)
    return " ".join(re.sub(r"\\([^a-zA-Z])", r"\1", text).split())


def large_fractions(text):
    """Outer fractions in full size, as a formula on its own line has them."""
    out, depth = [], 0
    for piece in re.split(r"(\\frac(?![a-zA-Z])|[{}])", text):
        depth += (piece == "{") - (piece == "}")
        out.append("\\dfrac" if piece == "\\frac" and depth == 0 else piece)
    return "".join(out)


def place_formula(node):
    """Replaces a formula's text by its drawing, or by readable text."""
    text = node.text_content().strip()
    display = "display" in node.get("class")
    source = text
    for pattern, other in REWRITES:
        source = re.sub(pattern, other, source)
    if display:
        source = large_fractions(source)
    for child in list(node):
        node.remove(child)
    node.text = None
    try:
        made = draw_formula(source)
        if not made.pieces or made.width <= 0:
            raise ValueError("nothing to draw")
    except (ValueError, KeyError, IndexError, RuntimeError, ImportError):
        warn(f"a formula could not be drawn and is shown as text: "
             f"{' '.join(text.split())[:80]}")
        node.set("class", node.get("class") + " as-text")
        node.text = formula_text(source)
        return
    image = lx.Element("img")
    image.set("alt", " ".join(text.split()))
    image.set("class", "formula")
    image.set("src", "data:image/svg+xml;base64,"
              + base64.b64encode(made.svg().encode()).decode())
    em = EM / FORMULA_SCALE
    image.set("style", f"width: {made.width / em:.3f}em; "
              f"height: {(made.above + made.below) / em:.3f}em; "
              f"vertical-align: {-made.below / em:.3f}em")
    node.append(image)
    if display and node.tag == "span":
        node.set("class", "formula display inside")
