"""This process as a rank of a job that mpi4py runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from . import _core
from ._errors import Error

_ranks: _core.MpiRanks | None = None


def ranks_of(comm: Any) -> _core.MpiRanks:
    """The ranks of `comm`, a communicator of mpi4py. Collective at the first call."""
    global _ranks
    py2f = getattr(comm, "py2f", None)
    if py2f is None:
        raise Error(f"comm is of type {type(comm).__name__}: pass a communicator of mpi4py, as MPI.COMM_WORLD",
                    field="comm")
    if _ranks is None:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _end_later)
        _ranks = _core.MpiRanks(py2f())
    return _ranks


def _end_later(number: int, frame: object) -> None:
    # When a rank has died, mpirun sends SIGTERM to the others, and SIGKILL a second later. In between, the watchdog
    # raises the cause.
    def end() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + number)

    timer = threading.Timer(1.0, end)
    timer.daemon = True
    timer.start()


def end_failed_job() -> None:
    """At the exit of the interpreter: after a failure of a session, or an uncaught exception, ends all processes."""
    if _ranks is None:
        return
    error = getattr(sys, "last_value", None)
    if error is not None:
        _ranks.fail(f"{type(error).__name__}: {error}")
    sys.stdout.flush()
    sys.stderr.flush()
    _ranks.end_job()  # returns if there was no failure


def leave() -> None:
    """After all sessions, and before MPI ends."""
    global _ranks
    end_failed_job()
    _ranks = None
