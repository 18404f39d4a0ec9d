# SPDX-License-Identifier: Apache-2.0
"""The interpreter of a guest: the zygote's imports, under gVisor.

Run by runsc as the first process of a guest, once per runtime. When all is
imported, a checkpoint is taken; each session is restored from it and goes on
in guest_serve(), which returns only in a session's kernel process. It has no
descriptors but 0, 1 and 2, which are the channels to its supervisor.
"""
import os

SPEC = "/run/glovebox-runtime.json"


def main():
    import glovebox_zygote
    try:
        kernel = glovebox_zygote.prepare(0, os.open(SPEC, os.O_RDONLY))
    except BaseException as exc:
        glovebox_zygote.say("cannot start: %s: %s" % (
            type(exc).__name__, exc))
        os._exit(1)
    import _glovebox
    grant = _glovebox.guest_serve()
    kernel.run(grant)


if __name__ == "__main__":
    main()
