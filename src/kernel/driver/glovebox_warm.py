# SPDX-License-Identifier: Apache-2.0
"""Cells the zygote runs, so that no session pays for a first time.

Runs in the zygote, muted, before its heap is frozen. What these cells import
and compute once (formatters, traceback machinery, fonts, option tables) is
then shared by all sessions. They start no process and leave no descriptor;
the kernel runs FIRST once more to touch the pages every cell touches.
"""
import importlib
import sys

FIRST = "1 + 1"

# From its second run on the interpreter makes code quicker where it sees what
# is used, and writes that into the code. Once here, or once in each session.
ROUNDS = 2

# Loaded lazily by things a first cell is likely to do.
MODULES = (
    "asyncio", "base64", "codecs", "collections.abc", "concurrent.futures",
    "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal",
    "encodings.idna", "encodings.latin_1", "encodings.ascii", "fractions",
    "functools", "glob", "hashlib", "heapq", "inspect", "io", "itertools",
    "json", "linecache", "locale", "logging", "math", "multiprocessing",
    "pathlib", "pickle", "pprint", "queue", "random", "re", "selectors",
    "shutil", "signal", "socket", "statistics", "string", "struct",
    "subprocess", "tempfile", "textwrap", "threading", "time", "timeit",
    "tokenize", "traceback", "types", "typing", "unicodedata", "urllib.parse",
    "uuid", "warnings", "zipfile", "zoneinfo", "_strptime",
)

# (module that must be loaded already, cell)
CELLS = (
    (None, "print('ready')\nimport math\nmath.sqrt(2)"),
    (None, "x = [i * i for i in range(10)]\nsum(x)"),
    (None, "f'{3.14159:.2f} {[1, 2.5, None]!r} {dict(a=1)}'"),
    (None, "def f(n):\n    return 1 / n\nf(0)"),
    (None, "x = = 1"),
    (None, "import collections\ncollections.Counter('glovebox')"),
    (None, "raise ValueError('é') from KeyError('k')"),
    ("IPython", "%time sum(range(10))"),
    ("IPython", "from IPython.display import HTML, Markdown, display\n"
                "display(HTML('<b>x</b>'), Markdown('*x*'))"),
    ("numpy", "import numpy as np\n"
              "a = np.arange(12.0).reshape(3, 4)\n"
              "print(a, a.mean(axis=0), a @ a.T, np.linalg.inv(np.eye(3)))\n"
              "np.random.rand(2); np.random.default_rng().normal(size=2)\na"),
    ("pandas", "import pandas as pd\n"
               "df = pd.DataFrame({'a': [1, 2, 3], 'b': [1.5, None, 2.5],"
               " 'c': list('xyz'), 'd': pd.date_range('2024-01-01',"
               " periods=3)})\n"
               "print(df, df.dtypes)\ndf.info()\n"
               "df.groupby('c').b.mean(); df.merge(df, on='a')\n"
               "df.sort_values('a').head(); df.pivot_table(index='c',"
               " values='a')\ndf.describe()"),
    ("pandas", "df = pd.DataFrame({'x': np.arange(10), 'y': np.ones(10)})\n"
               "print(df.describe(), df.x.sum(), df[df.x > 3].mean())\n"
               "df['z'] = df.x * 2\ndf"),
    ("pandas", "import io\n"
               "pd.read_csv(io.StringIO('a,b\\n1,x\\n2,y\\n')).to_csv()\n"
               "pd.Series([1, 2, 3])"),
    ("pandas", "df['nope']"),
    ("matplotlib.pyplot",
     "import matplotlib.pyplot as plt\n"
     "fig, ax = plt.subplots()\nax.plot([1, 2, 3], label='a')\n"
     "ax.bar([1, 2], [3, 4])\nax.set_title('Title')\nax.legend()\nplt.show()"),
    ("matplotlib.pyplot", "plt.hist([1, 2, 2, 3]);"),
    ("plotly.graph_objects",
     "import plotly.graph_objects as go\n"
     "go.Figure(go.Scatter(x=[1, 2], y=[3, 4]))"),
    ("plotly.express",
     "import plotly.express as px\n"
     "px.line(x=[1, 2], y=[3, 4], title='Title')"),
    ("plotly.express", "px.bar(x=[1, 2], y=[3, 4]); px.scatter(x=[1], y=[3])"),
)


def import_modules():
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # Small images leave parts of the library out.


def run(interpreter):
    """Runs all cells that apply, then forgets that they ran."""
    cells = [cell for needs, cell in CELLS
             if needs is None or needs in sys.modules
             and not (needs == "IPython" and interpreter.shell is None)]
    for cell in cells * ROUNDS:
        interpreter.execute(cell)
    interpreter.reset()
    if "matplotlib.pyplot" in sys.modules:
        release_fonts()


def release_fonts():
    """Font files stay open while cached, and a descriptor that two sessions
    share has one read position. Which file holds which font stays known."""
    sys.modules["matplotlib.pyplot"].close("all")
    manager = sys.modules["matplotlib.font_manager"]
    for name in ("_get_font", "get_font"):
        clear = getattr(getattr(manager, name, None), "cache_clear", None)
        if clear is not None:
            clear()
