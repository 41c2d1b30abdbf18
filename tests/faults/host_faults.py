"""Faults of hosts and of the links between them: two hosts of a rank and a spare, in network namespaces."""
import os
import re
import signal
import statistics
import threading
import time
from pathlib import Path

import hosts
from injection import KEYS, Injection, Unavailable
from process_faults import LEARNED
from supervised import Supervised, read_lines

STRUCK = 1  # the host; the supervisor is on the first one
# Seconds of silence after which mpirun reacts; the supervisor sets four by default.
PATIENT = ("--mca", "oob_tcp_keepalive_time", "60")


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"


class HostFault(Injection):
    """The struck host is named, and the spare takes its place."""

    keys = (LEARNED,)
    mpirun = ()

    def start(self):
        self.hosts = hosts.Hosts(3)
        try:
            self.case.addCleanup(self.hosts.close)
            self.hosts.__enter__()
        except hosts.Unavailable as lack:
            raise Unavailable(lack)
        more = ("--hosts", self.hosts.file(self.case.folder, slots=1), "--spares", "1")
        return Supervised(self.case, "struck", *more, keys=(*KEYS, *self.job_keys, *self.files, *self.keys),
                          hosts=self.hosts, mpirun=self.mpirun)

    def falls_silent(self):
        self.begin = time.time()
        self.hosts.set_cable(STRUCK, "down")
        address = re.escape(self.hosts.address(STRUCK))
        # Named by the ranks, or by mpirun if it notices first: its own message, or the supervisor's version of it.
        self.culprit = rf"{address} has acknowledged nothing|Remote daemon: \S+ on node {address}|daemon on {address}\b"

    def left(self):
        """A host that is cut off is told nothing: what runs there ends when it has noticed. mpirun's daemon sleeps on
        until the kernel gives the connection up, a quarter of an hour."""
        deadline = time.time() + 15
        while (found := [pid for pid in self.run.tagged() if name_of(pid) != "orted"]) and time.time() < deadline:
            time.sleep(0.05)
        return found

    def judge(self, named):
        begins = self.run.events("begin")
        used = [[self.hosts.address(host) for host in pair] for pair in ((0, 1), (0, 2))]
        return named and [event["hosts"] for event in begins] == used and \
            self.run.events("end")[0].get("host") == self.hosts.address(STRUCK)


class LinkDown(HostFault):
    """The link goes down for good: the host is cut off, and its processes are alive."""

    def strike(self):
        self.falls_silent()


class LostHost(HostFault):
    """A host loses its power."""

    def strike(self):
        self.falls_silent()
        for pid in self.hosts.processes(STRUCK):
            os.kill(pid, signal.SIGKILL)


class LinkDown5s(HostFault):
    """For longer than the learned limit: the job does not wait for it."""

    def strike(self):
        self.falls_silent()
        timer = threading.Timer(5, self.hosts.set_cable, (STRUCK, "up"))
        timer.start()
        self.case.addCleanup(timer.join)


class LinkDown5sPatient(HostFault):
    """For shorter than the limits that are given: what was lost is sent again, and the one attempt goes on."""

    keys = ("parallel.timeout_s=30",)
    mpirun = PATIENT

    def strike(self):
        self.begin, self.survives = time.time(), True
        self.hosts.set_cable(STRUCK, "down")
        time.sleep(5)
        self.hosts.set_cable(STRUCK, "up")

    def judge(self, named):
        return named


class SlowLink(HostFault):
    """A link becomes slow: steps take several times as long, metrics say in what, and the one attempt goes on."""

    RATE = "20mbit"

    def strike(self):
        self.begin, self.survives = time.time(), True
        self.hosts.slow_down(STRUCK, self.RATE)

    def judge(self, named):
        waits = [line["comm_wait_ms"] for line in read_lines(self.run.out / "metrics.jsonl") if "loss" in line]
        before, after = statistics.median(waits[2:self.step]), statistics.median(waits[self.step + 2:])
        return named and after > 3 * before
