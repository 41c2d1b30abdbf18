"""Hosts on one machine: network namespaces on a bridge, with links of adjustable rate.

Each host has its own name, loopback and interface; a token bucket limits its sends. Everything made here has this
process's id in its name, exists only in namespaces, and is always removed by close().
Needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) and iproute2.
"""
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path

ETHERNET_HEADER = 14  # bytes

# mpirun starts its daemons with this in place of ssh: AGENT ADDRESS COMMAND...
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done  # options of ssh
address=$1
shift
while [ -e "FOLDER/down-${address##*.}" ]; do sleep 0.1; done  # as ssh tries again, which cannot connect
unset TRIREME_ATTEMPT  # which no ssh would take along: the supervisor sees the processes of its own host alone
exec ip netns exec "PREFIX-${address##*.}" unshare --uts sh -c "hostname host${address##*.}; $*"
"""


class Unavailable(Exception):
    """What this machine lacks."""


def run(*line, check=True):
    done = subprocess.run([str(part) for part in line], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, line))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Hosts:
    """with Hosts(4, rate="100mbit") as hosts: hosts.mpirun(ranks_per_host=1, line=[...])"""

    def __init__(self, count, rate=None, burst="128kb", latency="50ms"):
        """rate=None: as fast as the machine moves data. TCP's congestion control is the machine's."""
        self.prefix = f"trireme{os.getpid()}"
        self.count = count
        self.network = {"rate": rate, "burst": burst, "latency": latency}
        self.made = []  # namespaces
        self.folder = None

    def __enter__(self):
        for tool in ("ip", "tc", "unshare", "mpirun"):
            if shutil.which(tool) is None:
                raise Unavailable(f"{tool} is missing (iproute2, util-linux, Open MPI)")
        try:
            self.make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def namespace(self, host):
        return f"{self.prefix}-{host + 1}"

    @staticmethod
    def address(host):
        return f"10.77.0.{host + 1}"

    def add_namespace(self, name):
        try:
            run("ip", "netns", "add", name)
        except RuntimeError as error:
            raise Unavailable(f"namespaces need root with CAP_NET_ADMIN and CAP_SYS_ADMIN ({error})") from error
        self.made.append(name)
        run("ip", "-n", name, "link", "set", "lo", "up")

    def make(self):
        switch = f"{self.prefix}-switch"
        self.add_namespace(switch)
        try:
            run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        except RuntimeError as error:
            raise Unavailable(f"no bridge can be made here ({error})") from error
        run("ip", "-n", switch, "link", "set", "bridge", "up")
        for host in range(self.count):
            name = self.namespace(host)
            self.add_namespace(name)
            run("ip", "-n", switch, "link", "add", f"port{host}", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "-n", switch, "link", "set", f"port{host}", "master", "bridge", "up")
            run("ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            if self.network["rate"]:
                self.slow_down(host, self.network["rate"])
        self.folder = Path(tempfile.mkdtemp(prefix=self.prefix))
        self.agent = self.folder / "agent"
        self.agent.write_text(AGENT.replace("PREFIX", self.prefix).replace("FOLDER", str(self.folder)))
        self.agent.chmod(self.agent.stat().st_mode | stat.S_IXUSR)

    def slow_down(self, host, rate):
        """What the host sends, from now on."""
        # A bucket that is smaller than an offloaded segment (64 KiB) would have to cut it first.
        try:
            run("tc", "-n", self.namespace(host), "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate,
                "burst", self.network["burst"], "latency", self.network["latency"])
        except RuntimeError as error:
            raise Unavailable(f"no token bucket can be made here ({error})") from error

    def sent_bytes(self):
        """By host: what its interface has sent, headers included, without what TCP sent again.

        A busy machine drops frames between namespaces, at times several percent of a step.
        """
        links = [json.loads(run("ip", "-n", self.namespace(h), "-j", "-s", "link", "show", "eth0"))[0]
                 for h in range(self.count)]
        return [link["stats64"]["tx"]["bytes"] - self.segments_sent_again(h) * (link["mtu"] + ETHERNET_HEADER)
                for h, link in enumerate(links)]

    def segments_sent_again(self, host):
        lines = run("ip", "netns", "exec", self.namespace(host), "cat", "/proc/net/snmp").splitlines()
        names, values = (line.split() for line in lines if line.startswith("Tcp:"))
        return int(values[names.index("RetransSegs")])

    def on_host(self, host, line):
        """`line` as a command that runs on the host, under its name."""
        return [str(part) for part in ["ip", "netns", "exec", self.namespace(host), "unshare", "--uts", "sh", "-c",
                                       f'hostname host{host + 1}; exec "$@"', "on_host", *line]]

    def mpirun_options(self):
        """For mpirun on a host, so that it starts its daemons on the others."""
        parameters = {"plm_rsh_agent": self.agent, "plm_rsh_no_tree_spawn": 1, "orte_keep_fqdn_hostnames": 1,
                      "oob_tcp_if_include": "eth0", "btl": "self,vader,tcp", "btl_tcp_if_include": "eth0",
                      "btl_vader_single_copy_mechanism": "none", "mpi_yield_when_idle": 1}
        mca = [part for key, value in parameters.items() for part in ("--mca", key, value)]
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [str(part) for part in [*root, "--bind-to", "none", *mca]]

    def file(self, folder, slots):
        """A host file for mpirun and for `trireme run --hosts`."""
        path = Path(folder) / "hosts"
        path.write_text("".join(f"{self.address(host)} slots={slots}\n" for host in range(self.count)))
        return path

    def mpirun_line(self, ranks_per_host, line):
        names = ",".join(f"{self.address(h)}:{ranks_per_host}" for h in range(self.count))
        return self.on_host(0, ["mpirun", *self.mpirun_options(), "--host", names, *line])

    def note_link(self, host, state):
        """For the agent."""
        down = self.folder / f"down-{host + 1}"
        down.touch() if state == "down" else down.unlink(missing_ok=True)

    def set_link(self, host, state):
        """"up" or "down"."""
        self.note_link(host, state)
        run("ip", "-n", self.namespace(host), "link", "set", "eth0", state)

    def set_cable(self, host, state):
        """"up" or "down": the other end of the host's link, as if somebody had pulled it out."""
        self.note_link(host, state)
        run("ip", "-n", f"{self.prefix}-switch", "link", "set", f"port{host}", state)

    def processes(self, host):
        return [int(pid) for pid in run("ip", "netns", "pids", self.namespace(host), check=False).split()]

    def mpirun(self, ranks_per_host, line, timeout=600):
        """Ends every process on the hosts when it takes longer. Returns CompletedProcess."""
        job = subprocess.Popen(self.mpirun_line(ranks_per_host, line), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            out, err = job.communicate(timeout=timeout)
        except BaseException:
            self.end_processes()
            job.communicate()
            raise
        return subprocess.CompletedProcess(job.args, job.returncode, out, err)

    def end_processes(self):
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            pids = [int(p) for name in self.made for p in run("ip", "netns", "pids", name, check=False).split()]
            if not pids:
                return
            for pid in pids:
                try:
                    os.kill(pid, signal_number)
                except ProcessLookupError:
                    pass
            time.sleep(0.5)

    def close(self):
        self.end_processes()
        while self.made:
            run("ip", "netns", "del", self.made.pop(), check=False)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
