# SPDX-License-Identifier: Apache-2.0
"""Z2 where it is hard: kernels whose process id is the zygote's own.

Libraries notice a fork by a changed process id. In pid namespaces it need
not change, so here a zygote and two of its sessions are all pid 2. The
positive control shows that without reseeding they draw the same numbers.
"""
import ctypes
import json
import os
import random
import ssl
import sys
import unittest

import harness

sys.path[:0] = [harness.DRIVER, os.path.join(harness.HERE, "double")]

import glovebox_reseed  # noqa: E402

CLONE_NEWPID = 0x20000000
libc = ctypes.CDLL(None, use_errno=True)


def run_as_pid_2(function):
    """Calls function in a fork that is pid 2 of a new namespace."""
    if libc.unshare(CLONE_NEWPID) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    first = os.fork()
    if first == 0:
        second = os.fork()
        if second == 0:
            try:
                assert os.getpid() == 2
                function()
            finally:
                os._exit(0)
        os.waitpid(second, 0)
        os._exit(0)
    os.waitpid(first, 0)


def draw(module_level):
    import tempfile
    libc.rand.restype = ctypes.c_int
    return {
        "random": random.random(),
        "instance": module_level.random(),
        "openssl": ssl.RAND_bytes(16).hex(),
        "c library": libc.rand(),
        "temporary names": next(tempfile._get_candidate_names()),
    }


def two_sessions(reseed):
    """What two sessions of one zygote draw, all three being pid 2."""
    read, write = os.pipe()

    def zygote():
        module_level = random.Random(1)
        generators = glovebox_reseed.collect()
        draw(module_level)

        def session():
            if reseed:
                generators.reseed()
            text = json.dumps(draw(module_level)) + "\n"
            os.write(write, text.encode())

        for _ in range(2):
            # A copy of the zygote enters the namespace, so that the zygote
            # itself may do so again.
            copy = os.fork()
            if copy == 0:
                run_as_pid_2(session)
                os._exit(0)
            os.waitpid(copy, 0)

    # A fork first: unshare() decides where later children of a process go.
    helper = os.fork()
    if helper == 0:
        run_as_pid_2(zygote)
        os._exit(0)
    os.waitpid(helper, 0)
    os.close(write)
    with os.fdopen(read) as file:
        return [json.loads(line) for line in file]


class Reseed(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("pid namespaces need root")

    def test_control_without_reseeding_sessions_are_alike(self):
        one, two = two_sessions(False)
        for drawn in (one, two):
            del drawn["random"]  # os.fork() has a hook for this one.
        self.assertEqual(one, two)

    def test_Z2_reseeded_sessions_differ_in_every_source(self):
        one, two = two_sessions(True)
        for source in one:
            self.assertNotEqual(one[source], two[source], source)


if __name__ == "__main__":
    harness.main()
