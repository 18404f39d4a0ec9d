# SPDX-License-Identifier: Apache-2.0
"""Takes one document apart: runs inside a session, never on the host.

Writes the document's text, UTF-8 with a form feed after each page, slide or
sheet, to a file, and prints one word: ok, or why not (see documents.c). Uses
nothing but Python's own library and pdftotext. The document may be anything:
the session is the wall, the limits here only keep honest answers quick.
"""
import os
import re
import subprocess
import sys
import zipfile
from xml.etree import ElementTree

ENTRIES = 20_000  # of an archive
ENTRY_BYTES = 256 << 20  # of one entry, unpacked
RATIO = 200  # unpacked to packed, of an entry over a megabyte
SHEET_ROWS = 200_000


class Problem(Exception):
    """Its text is the word to print."""


class Full(Exception):
    """As much text as is wanted is there."""


class Text:
    def __init__(self, path, most):
        self.file = open(path, "wb")
        self.left = most

    def add(self, text):
        data = text.encode("utf-8", "replace")
        self.file.write(data[:self.left])
        self.left -= len(data)
        if self.left <= 0:
            raise Full


# ---- PDF ---------------------------------------------------------------------

def pdf(path, out):
    try:
        tool = subprocess.Popen(
            ["pdftotext", "-q", "-enc", "UTF-8", path, "-"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise Problem("no-reader") from None
    try:
        while data := tool.stdout.read(65536):
            out.file.write(data[:out.left])
            out.left -= len(data)
            if out.left <= 0:
                raise Full
        if tool.wait() != 0:
            why = tool.stderr.read(4096).lower()
            # 3 is "not permitted", which a locked file says too
            locked = tool.returncode == 3 or b"password" in why
            raise Problem("locked" if locked else "damaged")
    finally:
        tool.kill()
        tool.wait()


# ---- archives of XML ---------------------------------------------------------

def unpack(path):
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        with open(path, "rb") as file:  # an encrypted office file is an OLE one
            old = file.read(8) == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
        raise Problem("locked" if old else "damaged") from None
    if len(archive.infolist()) > ENTRIES:
        raise Problem("too-big")
    return archive


def entry(archive, name):
    info = archive.getinfo(name)
    if info.flag_bits & 1:
        raise Problem("locked")
    if info.file_size > ENTRY_BYTES or (
            info.file_size > 1 << 20
            and info.file_size > RATIO * max(info.compress_size, 1)):
        raise Problem("too-big")
    return archive.open(info)


def walk(archive, name):
    """The elements of an entry as they end, without namespaces or memory."""
    depth = 0
    with entry(archive, name) as file:
        for event, element in ElementTree.iterparse(file, ("start", "end")):
            tag = element.tag.rpartition("}")[2]
            if event == "start":
                depth += 1
                if depth > 2000:
                    raise Problem("too-big")
            else:
                depth -= 1
            yield event, tag, element


def attribute(element, name):
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return value
    return None


def numbered(archive, pattern):
    """Entries like slide12.xml in the order of their numbers."""
    found = [(int(m[1]), m[0]) for m in map(re.compile(pattern).fullmatch, archive.namelist()) if m]
    return [name for _, name in sorted(found)]


def docx(path, out):
    archive = unpack(path)
    others = [n for n in archive.namelist()
              if re.fullmatch(r"word/(header|footer|footnotes|endnotes|comments)\d*\.xml", n)]
    for name in ["word/document.xml", *sorted(others)]:
        for event, tag, element in walk(archive, name):
            if event == "start":
                if tag == "lastRenderedPageBreak" or (
                        tag == "br" and attribute(element, "type") == "page"):
                    out.add("\f")
                continue
            if tag == "t":
                out.add(element.text or "")
            elif tag in ("tab", "tc"):
                out.add("\t")
            elif tag in ("p", "br", "cr"):
                out.add("\n")
            if tag in ("p", "tbl"):
                element.clear()


def pptx(path, out):
    archive = unpack(path)
    for name in numbered(archive, r"ppt/slides/slide(\d+)\.xml"):
        notes = name.replace("slides/slide", "notesSlides/notesSlide")
        for part in [name] + [notes] * (notes in archive.namelist()):
            for event, tag, element in walk(archive, part):
                if event == "end":
                    if tag == "t":
                        out.add(element.text or "")
                    elif tag in ("p", "br"):
                        out.add("\n")
                        element.clear()
        out.add("\f")


def shared_strings(archive):
    strings, current = [], []
    if "xl/sharedStrings.xml" not in archive.namelist():
        return strings
    for event, tag, element in walk(archive, "xl/sharedStrings.xml"):
        if event == "end" and tag == "t":
            current.append(element.text or "")
        elif event == "end" and tag == "si":
            strings.append("".join(current))
            current = []
            element.clear()
    return strings


def cell(element, strings):
    kind = element.get("t")
    texts = [e.text or "" for e in element.iter()
             if e.tag.rpartition("}")[2] in ("v", "t")]
    text = " ".join(texts)
    if kind == "s" and text.isdigit() and int(text) < len(strings):
        return strings[int(text)]
    return text


def xlsx(path, out):
    archive = unpack(path)
    strings = shared_strings(archive)
    names = [attribute(e, "name") for ev, tag, e in walk(archive, "xl/workbook.xml")
             if ev == "end" and tag == "sheet"]
    for i, name in enumerate(numbered(archive, r"xl/worksheets/sheet(\d+)\.xml")):
        out.add((names[i] if i < len(names) and names[i] else "") + "\n")
        rows = 0
        for event, tag, element in walk(archive, name):
            if event == "end" and tag == "c":
                out.add(cell(element, strings) + "\t")
            elif event == "end" and tag == "row":
                out.add("\n")
                element.clear()
                rows += 1
                if rows > SHEET_ROWS:
                    break
        out.add("\f")


def odf(path, out):
    archive = unpack(path)
    for event, tag, element in walk(archive, "content.xml"):
        if event == "start":
            if tag == "soft-page-break":
                out.add("\f")
            if tag == "table" and attribute(element, "name"):
                out.add(attribute(element, "name") + "\n")
            continue
        if tag in ("p", "h"):
            out.add("".join(element.itertext()))
            out.add("\n")
            element.clear()
        elif tag == "table-cell":
            out.add("\t")
        elif tag in ("page", "table"):
            out.add("\f")
        elif tag in ("s", "tab", "line-break"):
            element.text = " "


READERS = {"pdf": pdf, "docx": docx, "pptx": pptx, "xlsx": xlsx,
           "odt": odf, "ods": odf, "odp": odf}


def main(kind, path, to, most):
    word = "ok"
    try:
        if os.path.exists(to):
            os.unlink(to)
        out = Text(to, most)
        try:
            READERS[kind](path, out)
        except Full:
            pass
        out.file.close()
    except Problem as problem:
        word = str(problem)
    except (MemoryError, OSError):
        raise  # of the session, not of the document
    except Exception:  # whatever a parser makes of broken bytes
        word = "damaged"
    sys.stdout.write(word + "\n")
