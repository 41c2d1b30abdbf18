"""A Slurm of one machine: munged, slurmctld and slurmd of the user who runs the test, on loopback, in a folder.

Debian's packages: third_party/install.sh --slurm. Nothing outside of the folder is read or written, and no process is
ended but those started here and their jobs, which have the folder's configuration in their environment.
"""
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

TOOLS = ("setpriv", "munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "sinfo")
CONFIGURATION = """
ClusterName=trireme
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
KillWait={kill_wait_s}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Unavailable(Exception):
    """What this machine lacks."""


def find_tool(name):
    """Daemons are where a user's PATH may not lead."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Slurm:
    """with Slurm(folder, cpus=2) as slurm: slurm.sbatch("train.sbatch", ...)"""

    def __init__(self, folder, cpus, kill_wait_s=10):
        missing = [tool for tool in TOOLS if find_tool(tool) is None]
        if missing:
            raise Unavailable(f"no {', '.join(missing)} (third_party/install.sh --slurm)")
        self.folder = Path(folder)
        self.daemons = []
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        configuration = CONFIGURATION.format(
            folder=self.folder, host=socket.gethostname(), user=pwd.getpwuid(os.geteuid()).pw_name, cpus=cpus,
            kill_wait_s=kill_wait_s, controller_port=free_port(), node_port=free_port())
        (self.folder / "slurm.conf").write_text(configuration)
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def __enter__(self):
        try:
            self.start_daemons()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start(self, name, *options):
        log = open(self.folder / f"{name}.out", "w")
        # It ends with the test, however that ends.
        line = [find_tool("setpriv"), "--pdeathsig", "TERM", find_tool(name), *map(str, options)]
        self.daemons.append(subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                             env=self.environment, start_new_session=True))
        log.close()

    def start_daemons(self):
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        # --force: the folder is the user's own, wherever it lies.
        self.start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}",
                   *(f"--{name}-file={self.folder}/munged.{name}" for name in ("log", "pid", "seed")))
        self.wait_until((self.folder / "munge.socket").exists, "munged's socket")
        self.start("slurmctld", "-D", "-i", "-f", self.folder / "slurm.conf")
        self.start("slurmd", "-D", "-f", self.folder / "slurm.conf", "-N", socket.gethostname())
        self.wait_until(lambda: self.ask("sinfo", "--noheader", "--format=%t").strip() == "idle", "an idle node")

    def wait_until(self, condition, what, seconds=30):
        deadline = time.time() + seconds
        while not condition():
            ended = [daemon.args[3] for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.time() > deadline:
                raise Unavailable(f"Slurm does not start here: {what} did not come, {ended or 'nothing'} ended\n"
                                  + self.output())
            time.sleep(0.05)

    def output(self):
        return "\n".join(f"{log.name}:\n{log.read_text()[-1500:]}" for log in sorted(self.folder.glob("*.out")))

    def ask(self, tool, *words):
        """What it says, or "" where it fails."""
        done = subprocess.run([find_tool(tool), *map(str, words)], capture_output=True, text=True, env=self.environment,
                              timeout=60)
        return done.stdout if done.returncode == 0 else ""

    def sbatch(self, *words, environment=()):
        """The new job's number."""
        done = subprocess.run([find_tool("sbatch"), "--parsable", *map(str, words)], capture_output=True, text=True,
                              env={**self.environment, **dict(environment)}, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"sbatch: {done.stderr}")
        return done.stdout.strip()

    def job(self, number):
        """Fields of a job by name: JobState, Reason, Restarts, ExitCode, ..."""
        words = self.ask("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def processes(self):
        """Of this Slurm and its jobs."""
        mark = f"SLURM_CONF={self.folder}/slurm.conf"
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_text(errors="replace").split("\0"):
                    found.append(int(entry.name))
            except OSError:
                pass  # gone meanwhile, or another user's
        return found

    def close(self):
        for daemon in reversed(self.daemons):  # the node first: it ends no job, but starts none either
            daemon.terminate()
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
