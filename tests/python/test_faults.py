"""Faults of callers: each is a clear exception, and nothing hangs or leaks."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import trireme
from conftest import JOB, Tokens, batch


class Broken(Tokens):
    """Fails as `fault` says at sample 7."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def __getitem__(self, index: int):  # type: ignore[no-untyped-def]
        inputs, targets = super().__getitem__(index)
        if index != 7:
            return inputs, targets
        if self.fault == "exception":
            raise OSError("no such sample")
        if self.fault == "shape":
            return inputs[:5], targets
        if self.fault == "dtype":
            return inputs.astype(np.float32), targets
        if self.fault == "vocabulary":
            return inputs + 64, targets
        return inputs


@pytest.mark.parametrize("local", [1, 2])
@pytest.mark.parametrize("fault,message,cause", [
    ("exception", r"train\[7\]: OSError: no such sample", OSError),
    ("shape", r"train\[7\]: ValueError: the input has the shape \(5,\)", ValueError),
    ("dtype", r"train\[7\]: Error: input are float32", trireme.Error),
    ("tuple", r"train\[7\]: TypeError: a sample is a tuple", TypeError),
    ("vocabulary", r"inputs\[\d+\].*model.vocab = 64", None),
])
def test_broken_data_sets(job: trireme.Job, tmp_path: pathlib.Path, local: int, fault: str, message: str,
                          cause: type | None) -> None:
    with trireme.Session(job, local=local, train=Broken(fault)) as session:
        with pytest.raises(trireme.Error, match=message) as info:
            list(session.train(tmp_path))
        assert info.value.code in ("runtime", "invalid_input")
        assert cause is None or isinstance(info.value.__cause__, cause)


@pytest.mark.parametrize("inputs,targets,message", [
    (np.zeros((8, 15), np.int32), np.zeros((8, 16), np.int32), r"inputs have the shape \[8, 15\].*\[B, 16\]"),
    (np.zeros((8, 16), np.int32), np.zeros((7, 16), np.int32), "8 inputs and 7 targets"),
    (np.zeros((4, 16), np.int32), np.zeros((4, 16), np.int32), "train.global_batch = 8"),
    (np.zeros((8, 16), np.float32), np.zeros((8, 16), np.int32), "inputs are float32, and the job needs int32"),
    (np.full((8, 16), 64, np.int32), np.zeros((8, 16), np.int32), r"inputs\[0\].*from 0 to 63"),
    (np.zeros((8, 16), np.int32), np.full((8, 16), -2, np.int32), r"targets\[0\].*from -1 to 63"),
    (np.full((8, 16), 1 << 40), np.zeros((8, 16), np.int32), "outside of int32"),
])
def test_wrong_arrays_leave_the_session_usable(job: trireme.Job, inputs: np.ndarray, targets: np.ndarray,
                                               message: str) -> None:
    with trireme.Session(job, local=2) as session:
        with pytest.raises(trireme.Error, match=message):
            session.step(inputs, targets)
        assert session.step(*batch(1))["step"] == 1


def test_broken_loss(job: trireme.Job) -> None:
    def loss(logits: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
        raise ZeroDivisionError("of a loss")

    with trireme.Session(job, local=2, loss=loss) as session:
        with pytest.raises(trireme.Error, match="loss: ZeroDivisionError: of a loss") as info:
            session.step(*batch(1))
        assert isinstance(info.value.__cause__, ZeroDivisionError)
    with trireme.Session(job, loss=lambda logits, targets: (0.0, logits[0])) as session:
        with pytest.raises(trireme.Error, match="the gradient has the shape"):
            session.step(*batch(1))


def test_refused_sessions(job: trireme.Job, tokens: Tokens, tmp_path: pathlib.Path) -> None:
    for function in (trireme.Session, trireme.plan):
        with pytest.raises(TypeError, match="job is of type str: pass a Job"):
            function("gpt.toml")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="blocks is of type str: pass what load_blocks"):
        trireme.Session(job, blocks="libown_blocks.so")  # type: ignore[arg-type]
    with pytest.raises(trireme.Error, match="local=0"):
        trireme.Session(job, local=0)
    with trireme.Session(job, local=5) as session, pytest.raises(trireme.Error, match="rank|micro"):
        session.step(*batch(1))
    with pytest.raises(trireme.Error, match="eval= needs train="):
        trireme.Session(job, eval=tokens)
    with trireme.Session(job) as session:
        session.step(*batch(1))
        with pytest.raises(trireme.Error, match="make a new session"):
            session.train(tmp_path)
    with pytest.raises(trireme.Error, match="closed"):
        session.step(*batch(1))


def test_two_sessions_and_threads_of_python(job: trireme.Job, tmp_path: pathlib.Path) -> None:
    hashes = []

    def work(name: str) -> None:
        with trireme.Session(job, local=2) as session:
            list(session.train(tmp_path / name))
            hashes.append(session.state_hash())

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hashes) == 2 and len(set(hashes)) == 1


def test_leaving_the_loop_saves_a_checkpoint(job: trireme.Job, tmp_path: pathlib.Path) -> None:
    with trireme.Session(job) as session:
        for record in session.train(tmp_path / "out"):
            if record["step"] == 2:
                break
    step = max((tmp_path / "out" / "checkpoints").iterdir()).name
    assert step < "step-000006"
    with trireme.Session(job) as session:
        records = list(session.train(tmp_path / "out"))
        resumed = session.state_hash()
    assert records[0]["step"] == int(step[-6:]) + 1 and records[-1]["step"] == 6
    with trireme.Session(job) as session:
        list(session.train(tmp_path / "undisturbed"))
        assert session.state_hash() == resumed


CHILD = """
import sys, trireme
job = trireme.Job.from_toml(sys.argv[1], {"train.steps": 1000000})
session = trireme.Session(job, local=2)
try:
    for record in session.train(sys.argv[2]):
        print(record["step"], flush=True)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    %s
"""


@pytest.mark.parametrize("end", ["session.close()", "pass"])
def test_interrupt_saves_a_checkpoint(job_file: pathlib.Path, tmp_path: pathlib.Path, end: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD % end, str(job_file), str(tmp_path / "out")],
                             stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "1\n"
    child.send_signal(signal.SIGINT)
    printed = child.stdout.read().splitlines()
    assert child.wait() == 0 and printed[-1] == "KeyboardInterrupt"
    assert list((tmp_path / "out" / "checkpoints").glob("step-*"))


def test_exit_with_an_open_session(job_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    text = CHILD.replace("        print", "        break\n        print") % "pass"
    child = subprocess.run([sys.executable, "-c", text, str(job_file), str(tmp_path / "out")], capture_output=True,
                           text=True)
    assert child.returncode == 0 and not child.stderr, child.stderr
    assert list((tmp_path / "out" / "checkpoints").glob("step-*"))


def test_fork_after_a_session(job: trireme.Job) -> None:
    with trireme.Session(job) as session:
        session.step(*batch(1))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                session.step(*batch(1))
            except trireme.Error as error:
                code = 0 if "fork" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert session.step(*batch(1))["step"] == 2


def test_ranks_of_mpirun_are_refused(job_file: pathlib.Path) -> None:
    environment = {**os.environ, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
                   "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    text = "import sys, trireme; trireme.Session(trireme.Job.from_toml(sys.argv[1]))"
    child = subprocess.run([sys.executable, "-c", text, str(job_file)], capture_output=True, text=True,
                           env=environment)
    assert child.returncode == 1 and "pass comm=MPI.COMM_WORLD" in child.stderr


def resident_bytes() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_hundred_sessions_leave_nothing(job: trireme.Job) -> None:
    def one() -> None:
        with trireme.Session(job, local=2) as session:
            session.step(*batch(1))

    for _ in range(20):
        one()
    threads, memory = len(os.listdir("/proc/self/task")), resident_bytes()
    for _ in range(100):
        one()
    # Threads of OpenMP end after the ranks that started them.
    for _ in range(1000):
        if len(os.listdir("/proc/self/task")) <= threads:
            break
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) <= threads
    assert resident_bytes() - memory < 16 << 20
