#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An S3 server for tests: OpenStack Swift with its middleware s3api, all four
servers of it in this process, on loopback, with its data in DIR.

Usage: swift-s3.py DIR [--port N]

Prints "ready PORT" once it serves. Ends with SIGTERM, or when its standard
input is closed, so that it does not outlive the test that started it. The
keys are test:tester and testing, and buckets can be made by clients.
"""
import os
import signal
import socket
import sys
import threading

import eventlet

eventlet.monkey_patch()

from eventlet import wsgi  # noqa: E402
from paste.deploy import loadapp  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402

BACKEND = """
[DEFAULT]
devices = {dir}/devices
swift_dir = {dir}
mount_check = false
log_level = ERROR
log_address = {dir}/no-log
fallocate_reserve = 0
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""

PROXY = """
[DEFAULT]
swift_dir = {dir}
log_level = ERROR
log_address = {dir}/no-log
[pipeline:main]
pipeline = catch_errors gatekeeper cache bulk s3api tempauth slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
s3_acl = false
min_segment_size = 1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
"""


def listen(port=0):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(256)
    return sock


def main():
    where = os.path.abspath(sys.argv[1])
    port = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0
    os.makedirs(where + "/devices/d1", exist_ok=True)
    with open(where + "/swift.conf", "w") as f:
        f.write("[swift-hash]\nswift_hash_path_suffix = test\nswift_hash_path_prefix = test\n")
    import swift.common.utils as utils

    utils.SWIFT_CONF_FILE = where + "/swift.conf"
    utils.HASH_PATH_SUFFIX = utils.HASH_PATH_PREFIX = b"test"
    import swift.common.storage_policy as policy

    policy.utils = utils
    serve = []
    for kind in ("account", "container", "object"):
        sock = listen()
        ring = RingBuilder(4, 1, 0)
        ring.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": sock.getsockname()[1],
                      "device": "d1", "weight": 1})
        ring.rebalance()
        ring.get_ring().save(f"{where}/{kind}.ring.gz")
        path = f"{where}/{kind}.conf"
        with open(path, "w") as f:
            f.write(BACKEND.format(dir=where, kind=kind))
        serve.append((sock, path))
    with open(where + "/proxy.conf", "w") as f:
        f.write(PROXY.format(dir=where))
    front = listen(port)
    serve.append((front, where + "/proxy.conf"))
    null = open(os.devnull, "w")
    for sock, path in serve:
        app = loadapp("config:" + path)
        eventlet.spawn(wsgi.server, eventlet.greenio.GreenSocket(sock), app, log=null, log_output=False,
                       keepalive=True, minimum_chunk_size=1)
    print("ready", front.getsockname()[1], flush=True)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

    def until_closed():
        while os.read(0, 4096):
            pass
        os._exit(0)

    eventlet.patcher.original("threading").Thread(target=until_closed, daemon=True).start()
    while True:
        eventlet.sleep(3600)


if __name__ == "__main__":
    main()
