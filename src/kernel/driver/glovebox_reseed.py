# SPDX-License-Identifier: Apache-2.0
"""Fresh randomness for every session.

collect() runs in the zygote, before its heap is frozen: it finds all state
that a fork would copy. Generators.reseed() runs in the kernel before any
cell. Nothing here trusts a library's own fork detection: those compare
process ids, and the kernel of every session has the same one.
"""
import gc
import os
import random
import sys

# See glovebox_frames: cells may damage builtins.
__builtins__ = dict(__builtins__)

_MT_WORDS = 624


def _instances(kinds):
    return [obj for obj in gc.get_objects() if isinstance(obj, kinds)]


def _c_library():
    try:
        import ctypes
        return ctypes, ctypes.CDLL(None)
    except (ImportError, OSError):
        return None, None


class Generators:
    """Every generator the zygote holds, by kind."""

    def __init__(self, modules):
        self.modules = modules
        self.randoms = [obj for obj in _instances(random.Random)
                        if not isinstance(obj, random.SystemRandom)]
        self.bits, self.sequences, self.legacy = [], [], []
        numpy_random = modules.get("numpy.random")
        if numpy_random is not None:
            self.sequences = _instances(numpy_random.SeedSequence)
            self.legacy = _instances(numpy_random.RandomState)
            # Its own one is set with it.
            own = {id(state._bit_generator) for state in self.legacy}
            self.bits = [bits for bits
                         in _instances(numpy_random.BitGenerator)
                         if id(bits) not in own]
        self.ctypes, self.libc = _c_library()

    def reseed(self):
        """Gives each of them state of its own. Raises if one refuses: a
        session with a shared random state must not start."""
        for obj in self.randoms:
            random.Random.seed(obj)
        self._reseed_numpy()
        self._reseed_libraries()
        self._forget_names()

    def _reseed_numpy(self):
        if not (self.bits or self.sequences or self.legacy):
            return
        for sequence in self.sequences:
            # Generators spawn others from it.
            sequence.__init__(int.from_bytes(os.urandom(16), "little"))
        for bits in self.bits:
            bits.state = self._fresh_state(bits)
        for state in self.legacy:
            # The cached second half of a Gaussian pair is old state too.
            state.set_state(dict(self._fresh_state(state._bit_generator),
                                 has_gauss=0, gauss=0.0))

    def _fresh_state(self, bits):
        if type(bits).__name__ != "MT19937":
            return type(bits)().state
        # Its state is random words and a position; this is ten times
        # quicker than to seed another one and copy.
        numpy = self.modules["numpy"]
        key = numpy.frombuffer(os.urandom(4 * _MT_WORDS), numpy.uint32)
        return {"bit_generator": "MT19937",
                "state": {"key": key, "pos": _MT_WORDS}}

    def _reseed_libraries(self):
        seed = os.urandom(32)
        ssl = self.modules.get("ssl") or self.modules.get("_ssl")
        if ssl is not None:
            # Reseeds the primary generator; the others follow it.
            ssl.RAND_add(seed, 32.0)
        if self.libc is not None:
            number = self.ctypes.c_uint(int.from_bytes(seed[:4], "little"))
            self.libc.srandom(number)
            self.libc.srand48(self.ctypes.c_long(number.value))
        cv2 = self.modules.get("cv2")
        if cv2 is not None and hasattr(cv2, "setRNGSeed"):
            cv2.setRNGSeed(int.from_bytes(seed[4:8], "little") >> 1)
        torch = self.modules.get("torch")
        if torch is not None and hasattr(torch, "seed"):
            torch.seed()

    def _forget_names(self):
        tempfile = self.modules.get("tempfile")
        if tempfile is not None:
            tempfile._name_sequence = None
            tempfile.tempdir = None
        uuid = self.modules.get("uuid")
        if uuid is not None:
            uuid._node = None
            uuid._last_timestamp = None
            for name in ("_last_timestamp_v6", "_last_timestamp_v7",
                         "_last_counter_v7"):
                if hasattr(uuid, name):
                    setattr(uuid, name, 0 if "counter" in name else None)


def collect():
    """In the zygote, after all imports and the warm-up."""
    try:
        import ssl
        # Set up here, where all sessions share the pages it takes; what it
        # drew is replaced in each of them.
        ssl.RAND_bytes(1)
    except ImportError:
        pass  # An image may lack it; then nothing needs a new seed.
    gc.collect()
    return Generators(sys.modules)
