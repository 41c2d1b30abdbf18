#!/usr/bin/env python3
"""What monitoring costs a step: the same short job in turns without it, with all of it, beside clients that connect and
say nothing, and beside `trireme watch` that as many slow clients of its page are at: silent, asking for all of it and
reading nothing, following and reading nothing.

    monitoring_cost.py --trireme build/release/bin/trireme [--old OTHER/trireme] [--turns 6] [--steps 4000]

Steps take some 60 microseconds, so that a microsecond is seen. `--old`: a build to begin each turn with, as of before a
change. Times are those of the fastest tenth of steps, which nobody else on the machine disturbed, and the processor time
of the whole process (without that of `watch`): its start, all threads, what is written between steps. `--one-core`: all
of it on one core, where whatever else runs takes its time from the job.
"""
import argparse
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
from pathlib import Path

JOB = """
[model]
layers = 1
hidden = 16
heads = 2
vocab = 16
seq_len = 8
[data]
kind = "synthetic"
[train]
global_batch = 2
micro_batch = 2
[parallel]
threads = 1
"""
ALL = ('log.listen="127.0.0.1:0"', 'log.prometheus="a.prom"', "log.tensorboard=true")
CLIENTS = 2000


def connect(url, requests, count):
    """Clients that have sent one of the requests each, and read nothing."""
    host, port = url.split("/")[2].split(":")
    sockets = []
    for i in range(count):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex((host, int(port)))
        sockets.append(client)
    for i, client in enumerate(sockets):
        if request := requests[i % len(requests)]:
            try:
                client.send(request.encode())
            except OSError:  # closed already, or waiting to be let in
                pass
    return sockets


class Page:
    """`trireme watch` with slow clients, who come again as long as it runs."""

    def __init__(self, trireme, out, count):
        self.process = subprocess.Popen([trireme, "watch", out, "--listen", "127.0.0.1:0"], text=True,
                                        stdout=subprocess.PIPE)
        url = self.process.stdout.readline().split(" at ")[1].split()[0]
        requests = ["", "GET /data HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /events?after=x HTTP/1.1\r\nHost: localhost\r\n\r\n"]
        self.ending = threading.Event()

        def come_again():
            while not self.ending.is_set():
                sockets = connect(url, requests, count)
                self.ending.wait(1)
                for client in sockets:
                    client.close()

        self.thread = threading.Thread(target=come_again)
        self.thread.start()

    def end(self):
        self.ending.set()
        self.thread.join()
        self.process.terminate()
        self.process.wait()


def run(folder, trireme, steps, keys, clients=0, watched=0):
    """(milliseconds of a step, seconds of processor time)"""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    line = [trireme, "train", folder / "job.toml", "--out", out, "--set", f"train.steps={steps}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen([*line, *(part for key in keys for part in ("--set", key))], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for text in process.stdout:
        if clients == 0 or "metrics at http://" in text:
            break
    sockets = connect(text.split()[-1], [""], clients) if clients else []
    page = Page(trireme, out, watched) if watched else None
    process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)  # of what has ended
    if page:
        page.end()
    for client in sockets:
        client.close()
    ms = sorted(json.loads(line)["step_ms"] for line in (out / "metrics.jsonl").read_text().splitlines())
    return ms[len(ms) // 10], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trireme", type=Path, required=True)
    parser.add_argument("--old", type=Path)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--one-core", action="store_true")
    options = parser.parse_args()
    if options.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * CLIENTS, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    kinds = {"without": (options.trireme, ()), "all of it": (options.trireme, ALL),
             f"{CLIENTS} silent clients": (options.trireme, ALL, CLIENTS),
             f"{CLIENTS} slow clients of `watch`": (options.trireme, (), 0, CLIENTS)}
    if options.old:
        kinds = {"old, without": (options.old, ()), **kinds}
    results = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "job.toml").write_text(JOB)
        for _ in range(options.turns):
            for kind, (trireme, keys, *clients) in kinds.items():
                results[kind].append(run(Path(folder), trireme, options.steps, keys, *clients))
    for kind, pairs in results.items():
        step_us, process_us = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        print(f"{kind}: {1e3 * step_us:.1f} us a step, {1e6 * process_us / options.steps:.1f} us of processor time")


if __name__ == "__main__":
    main()
