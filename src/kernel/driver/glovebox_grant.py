# SPDX-License-Identifier: Apache-2.0
"""Makes the interpreter believe in what the session was granted.

Runs in the kernel before any cell; prepare() runs in the zygote. The kernel
enforces the grant; this only keeps libraries from starting a thread for each
core of the machine.
"""
import os
import re
import sys

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                    "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
                    "NUMEXPR_MAX_THREADS", "NUMBA_NUM_THREADS",
                    "POLARS_MAX_THREADS", "RAYON_NUM_THREADS",
                    "PYTHON_CPU_COUNT", "LOKY_MAX_CPU_COUNT")

# Loaded library, and its function that takes a number of threads.
_SETTERS = (
    (re.compile(r"/lib(?:scipy_)?openblas[^/]*\.so[^/]*$"),
     ("openblas_set_num_threads", "openblas_set_num_threads64_",
      "scipy_openblas_set_num_threads", "scipy_openblas_set_num_threads64_")),
    (re.compile(r"/libgomp[^/]*\.so[^/]*$"), ("omp_set_num_threads",)),
)

# Module, and its function that takes a number of threads.
_MODULE_SETTERS = (("cv2", "setNumThreads"), ("pyarrow", "set_cpu_count"),
                   ("numexpr", "set_num_threads"), ("torch", "set_num_threads"),
                   ("numba", "set_num_threads"))


def single_threaded():
    """Before the imports: no library may start a pool in the zygote."""
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"


# Modules that read their largest number of threads when they are imported.
_FIXED_AT_IMPORT = ("numexpr",)
_fixed = set()


def prepare():
    """Functions that set thread counts in the libraries loaded by now."""
    _fixed.update(name for name in _FIXED_AT_IMPORT if name in sys.modules)
    try:
        import ctypes
    except ImportError:
        return []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps
                 if "/" in line}
    found = []
    for path in sorted(paths):
        for pattern, names in _SETTERS:
            if not pattern.search(path):
                continue
            try:
                library = ctypes.CDLL(path)
            except OSError:
                continue  # Replaced on disk since it was loaded.
            found += [getattr(library, name) for name in names
                      if hasattr(library, name)]
    return found


def apply(cores, setters, always=False):
    """In the kernel: cores is what the session was granted. always: it may
    have had another number before."""
    for name in THREAD_VARIABLES:
        os.environ[name] = str(cores)

    def cpu_count():
        """Number of cores this session may use."""
        return cores

    os.cpu_count = cpu_count
    if hasattr(os, "process_cpu_count"):
        os.process_cpu_count = cpu_count
    if cores == 1 and not always:
        return  # Everything was loaded with one thread.
    for setter in setters:
        setter(cores)
    for module, function in _MODULE_SETTERS:
        setter = getattr(sys.modules.get(module), function, None)
        if setter is not None and module not in _fixed:
            setter(cores)
