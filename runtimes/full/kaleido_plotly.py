# SPDX-License-Identifier: Apache-2.0
"""Static images of plotly figures, drawn by the image's Chromium.

Debian has no kaleido, which plotly asks for images. This module stands in for
it: plotly finds a PlotlyScope here and calls transform(). If the real kaleido
is installed with pip, it is found first and this one is not used.
"""
import base64
import html
import json
import os
import re
import subprocess
import tempfile

FORMATS = ("png", "jpg", "jpeg", "webp", "svg", "pdf")
PLOTLY_JS = "/usr/share/python3-plotly/plotly.js"
SECONDS = 60

# The page draws the figure and leaves the picture, or what went wrong, as text
# in its only element of that kind.
PAGE = """<!doctype html><meta charset="utf-8"><style>@page {{ size: {width}px {height}px; margin: 0 }}
body {{ margin: 0 }}</style><div id="figure"></div><img id="shown"><script src="file://{js}"></script>
<script>
const done = (text) => {{ const e = document.createElement('output'); e.textContent = text; document.body.append(e); e.hidden = true; }};
const figure = {figure};
Plotly.newPlot('figure', figure.data || [], figure.layout || {{}}, {{ staticPlot: true }})
  .then((g) => Plotly.toImage(g, {{ format: '{format}', width: {width}, height: {height}, scale: {scale} }}))
  .then((url) => {{ document.getElementById('figure').remove();
    if ({print}) document.getElementById('shown').src = url;
    done(url); }})
  .catch((e) => done('error: ' + e));
</script>"""


class PlotlyScope:
    default_format = "png"
    default_width = 700
    default_height = 500
    default_scale = 1
    plotlyjs = PLOTLY_JS
    mathjax = None
    topojson = None

    def transform(self, figure, format=None, width=None, height=None, scale=None):
        """Return the figure as the bytes of an image."""
        format = (format or self.default_format).lower()
        if format not in FORMATS:
            raise ValueError(
                f"{format!r} is not a format that can be written here; use one of {', '.join(FORMATS)}")
        layout = figure.get("layout") or {}
        width = int(width or layout.get("width") or self.default_width)
        height = int(height or layout.get("height") or self.default_height)
        scale = float(scale or self.default_scale)
        if not (1 <= width * scale <= 16384 and 1 <= height * scale <= 16384):
            raise ValueError("width and height times scale must be 1 to 16384 pixels")
        # "</" inside the figure would end the script.
        text = json.dumps(figure, default=self._plain).replace("</", "<\\/")
        page = PAGE.format(js=PLOTLY_JS, figure=text, width=width, height=height, scale=scale,
                           format={"jpg": "jpeg", "pdf": "svg"}.get(format, format),
                           print="true" if format == "pdf" else "false")
        with tempfile.TemporaryDirectory(prefix="figure-", ignore_cleanup_errors=True) as folder:
            source = os.path.join(folder, "figure.html")
            with open(source, "w", encoding="utf-8") as out:
                out.write(page)
            if format == "pdf":
                target = os.path.join(folder, "figure.pdf")
                self._browse(folder, source, f"--print-to-pdf={target}", "--no-pdf-header-footer")
                with open(target, "rb") as pdf:
                    return pdf.read()
            return self._picture(self._browse(folder, source, "--dump-dom"))

    @staticmethod
    def _plain(value):
        for name in ("tolist", "isoformat"):
            if hasattr(value, name):
                return getattr(value, name)()
        raise TypeError(f"a {type(value).__name__} in the figure cannot be drawn")

    @staticmethod
    def _browse(folder, source, *what):
        command = [os.environ.get("CHROME_BIN", "chromium"), "--headless", "--disable-gpu",
                   f"--user-data-dir={folder}/profile", "--allow-file-access-from-files",
                   "--virtual-time-budget=30000", *what, f"file://{source}"]
        try:
            ran = subprocess.run(command, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise ValueError(f"Chromium did not draw the figure within {SECONDS} seconds") from None
        if ran.returncode != 0:
            raise ValueError("Chromium could not draw the figure: " + ran.stderr.decode(errors="replace")[-500:])
        return ran.stdout.decode("utf-8", "replace")

    @staticmethod
    def _picture(page):
        found = re.search(r"<output[^>]*>(.*?)</output>", page, re.S)
        text = html.unescape(found.group(1)) if found else "error: the page did not finish"
        if text.startswith("error: "):
            raise ValueError("the figure could not be drawn: " + text[7:])
        head, _, body = text.partition(",")
        if head.endswith(";base64"):
            return base64.b64decode(body)
        from urllib.parse import unquote_to_bytes
        return unquote_to_bytes(body)
