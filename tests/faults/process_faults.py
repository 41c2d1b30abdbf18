"""Faults of processes: ranks that die, stop, hang or are slow, and a supervisor that is told to stop or dies."""
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from injection import IN_BACKGROUND, Injection, Missed, Unavailable
from jobs import OPTIONS
from memory_group import MemoryGroup
from process_control import exit_process, hang_process
from rank_board import RankBoard

LEARNED = "parallel.timeout_s=auto"


class Sigkill(Injection):
    number = signal.SIGKILL

    def start(self):
        self.keys = self.numbers.choice(((), (IN_BACKGROUND,)))
        return super().start()

    def strike(self):
        pid = self.rank()
        self.begin = time.time()
        os.kill(pid, self.number)
        self.dies(pid)


class Sigsegv(Sigkill):
    number = signal.SIGSEGV


class SilentExit(Sigkill):
    """A rank ends itself in the middle of something, with exit code 0 or another."""

    def strike(self):
        pid = self.rank()
        self.begin = time.time()
        try:
            exit_process(pid, self.numbers.choice((0, 3)))
        except ProcessLookupError:
            raise Missed
        except OSError as error:
            raise Unavailable(error)
        self.culprit = rf"rank {self.victim} \(process {pid}\) died"


class OomKill(Injection):
    """A rank gets no more memory: the kernel kills it at the next page that it takes."""

    def strike(self):
        try:
            group = MemoryGroup()
        except OSError as error:
            raise Unavailable(error)
        self.case.addCleanup(group.remove)
        pid = self.rank()
        self.begin = time.time()
        group.starve(pid)
        self.dies(pid)


class KilledWhileSaving(Injection):
    """A rank dies while threads write a checkpoint: it is hidden, or whole."""

    keys = (IN_BACKGROUND,)

    def strike(self):
        pid = self.rank()
        self.wait_until(lambda: any(self.hidden()), pause_s=0)
        self.begin = time.time()
        os.kill(pid, signal.SIGKILL)
        self.dies(pid)


class Sigstop(Injection):
    @property
    def keys(self):
        return (f"parallel.timeout_s={OPTIONS.timeout}",)

    def strike(self):
        pid = self.rank()
        self.begin = time.time()
        os.kill(pid, signal.SIGSTOP)
        self.culprit = rf"held up .* by rank {self.victim} \(process {pid}, stopped by a signal\)"


class SigstopLearned(Sigstop):
    keys = (LEARNED,)


class HangInExchange(Injection):
    """A rank stays in an exchange with the others: it is stopped in the middle of it, and the action is named."""

    keys = (LEARNED,)
    EXCHANGE = re.compile(r"step \d+, action \d+ \((ReduceGrad|GatherGrad|ReduceLoss|GatherNorms|GatherUpdated)\b[^)]*\)")

    def strike(self):
        pid = self.rank()
        board = RankBoard(pid)

        def is_stopped_inside():
            if not self.EXCHANGE.match(board.action()):
                return False
            os.kill(pid, signal.SIGSTOP)
            if self.EXCHANGE.match(board.action()) and board.is_busy():
                return True
            os.kill(pid, signal.SIGCONT)
            return False

        try:
            self.wait_until(is_stopped_inside, pause_s=0)
        except ProcessLookupError:
            raise Missed
        self.begin = time.time()
        self.culprit = (rf"held up .* by rank {self.victim} \(process {pid}, stopped by a signal\) in "
                        + re.escape(board.action()))


class Hang(Injection):
    """A rank's thread is in an endless loop in an action: no signal shows it, and the others wait for it."""

    keys = (LEARNED,)

    def strike(self):
        pid = self.rank()
        board = RankBoard(pid)

        def hangs():
            if board.waits() or not board.is_busy():
                return False
            return hang_process(pid, still=lambda: board.is_busy() and not board.waits() and "Forward" in board.action())

        try:
            self.wait_until(hangs, pause_s=0)
        except ProcessLookupError:
            raise Missed
        except OSError as error:
            raise Unavailable(error)
        self.begin = time.time()
        # The verdict may come from its own watchdog.
        self.culprit = rf"held up .* by rank {self.victim}( \(process {pid}\))? in " + re.escape(board.action())


class Straggler(Injection):
    """A rank gets a third of the time for two seconds: the job waits for it, and nothing else happens."""

    def strike(self):
        pid = self.rank()
        self.begin, self.survives = time.time(), True
        try:
            while time.time() < self.begin + 2 and self.run.process.poll() is None:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.02)
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.01)
        except ProcessLookupError:
            pass  # the job is done


class PausedJob(Injection):
    """All of the job is stopped for longer than the limit, as on a machine that sleeps: it goes on."""

    keys = (LEARNED,)

    def strike(self):
        pids = self.run.tagged()
        self.begin, self.survives = time.time(), True
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    raise Missed  # the job is done
            if number == signal.SIGSTOP:
                time.sleep(4)


class ClockJump(Injection):
    """The wall clock jumps for supervisor, mpirun and ranks: back or forth, by an hour or a year. They go on."""

    keys = (LEARNED,)

    def start(self):
        library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
        if library is None:
            raise Unavailable("libfaketime is not installed")
        self.clock = self.case.folder / "clock"
        self.clock.write_text("+0\n")
        self.environment = {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_NO_CACHE": "1",
                            "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        run = super().start()
        for name in ("faketime_shm", "sem.faketime_sem"):  # the library leaves them behind
            self.case.addCleanup(Path(f"/dev/shm/{name}_{run.process.pid}").unlink, missing_ok=True)
        return run

    def strike(self):
        self.begin, self.survives = time.time(), True
        changed = self.clock.with_suffix(".new")
        changed.write_text(f"{self.numbers.choice('+-')}{self.numbers.choice((3600, 365 * 86400))}\n")
        changed.rename(self.clock)


class MpirunKilled(Injection):
    """SIGKILL to mpirun: its ranks go with it."""

    def strike(self):
        pid = self.mpirun()
        self.begin = time.time()
        os.kill(pid, signal.SIGKILL)
        self.culprit = rf"^mpirun \(process {pid}\) was ended by signal 9"

    def judge(self, named):
        return named and self.run.events("end")[0]["exit_code"] == 128 + signal.SIGKILL


class MpirunStopped(Injection):
    """SIGSTOP to mpirun alone: the ranks end their work, and the supervisor continues mpirun."""

    def strike(self):
        self.stopped = self.mpirun()
        self.begin, self.survives = time.time(), True
        os.kill(self.stopped, signal.SIGSTOP)

    def judge(self, named):
        said = f"mpirun (process {self.stopped}) was stopped by a signal, and its ranks were not: it is continued"
        return named and said in self.run.output()


class SupervisorKilled(Injection):
    """SIGKILL to the supervisor; another one takes over."""

    def strike(self):
        self.begin = time.time()
        self.run.process.kill()
        self.run.process.wait()
        self.verdict = time.time()
        self.supervisor = True


class Preemption(Sigkill):
    """SIGTERM to the supervisor, and the same command again."""

    number = signal.SIGTERM

    def strike(self):
        self.begin = time.time()
        self.run.process.send_signal(self.number)
        self.first_output = self.run.end(expect=75)
        self.verdict, self.supervisor = time.time(), True


class Hangup(Preemption):
    """The terminal of the supervisor closes."""

    number = signal.SIGHUP


class StoppedJob(Preemption):
    """All ranks are stopped, some of the time mpirun, too; then SIGTERM to the supervisor."""

    def strike(self):
        try:
            for pid in (self.run.rank(0), self.run.rank(1), *((self.mpirun(),) if self.numbers.random() < 0.5 else ())):
                os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            raise Missed
        super().strike()

    def judge(self, named):
        return named and "of the job were stopped by a signal: continued" in self.first_output


class PreemptionWithASecond(Sigkill):
    """SIGTERM, and a second later SIGKILL to all there is."""

    def strike(self):
        self.begin = time.time()
        self.run.process.send_signal(signal.SIGTERM)
        try:
            self.run.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            for pid in [self.run.process.pid, *self.run.tagged()]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.run.process.wait()
        self.verdict, self.supervisor = time.time(), True
