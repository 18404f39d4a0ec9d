# SPDX-License-Identifier: Apache-2.0
"""The ipykernel side of the benchmark, run inside the runtime image.

Holds one kernel and its own blocking client, as a program built on Jupyter
would. Each line on standard input is a JSON array, each answer one line:

    ["cell", CODE]   nanoseconds from the request to the kernel's idle, output
    ["private"]      bytes of the kernel's memory shared with nobody
"""
import json
import sys
import time

from jupyter_client.manager import start_new_kernel

TIMEOUT_S = 120


def run_cell(client, code):
    """One execution, timed to the kernel's idle message; (ns, stdout).

    The plain calls: execute_interactive costs the peer a millisecond more.
    """
    text = []
    begun = time.perf_counter_ns()
    request = client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=TIMEOUT_S)
        if message["parent_header"].get("msg_id") != request:
            continue
        content = message["content"]
        if message["msg_type"] == "stream":
            text.append(content["text"])
        elif content.get("execution_state") == "idle":
            break
    reply = client.get_shell_msg(timeout=TIMEOUT_S)["content"]
    took = time.perf_counter_ns() - begun
    if reply["status"] != "ok":
        raise RuntimeError(reply.get("evalue", "the cell failed"))
    return took, "".join(text)


def private_bytes(pid):
    """Private_Clean + Private_Dirty of one process."""
    total = 0
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        for line in rollup:
            if line.startswith(("Private_Clean:", "Private_Dirty:")):
                total += int(line.split()[1]) * 1024
    return total


def main():
    manager, client = start_new_kernel(startup_timeout=TIMEOUT_S)
    pid = manager.provisioner.pid
    try:
        print(json.dumps(["ready"]), flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            if request[0] == "cell":
                answer = run_cell(client, request[1])
            else:
                answer = [private_bytes(pid)]
            print(json.dumps(answer), flush=True)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


main()
