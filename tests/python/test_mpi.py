"""Sessions in processes of mpirun, over mpi4py: bits, records, and faults."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import trireme
from conftest import JOB, batch

ROOT = pathlib.Path(__file__).parents[2]
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])

pytest.importorskip("mpi4py")

START = """
import json, os, signal, sys, time
import numpy as np, trireme
from mpi4py import MPI
sys.path.insert(0, sys.argv[1])
from conftest import JOB, Tokens, batch
comm, out = MPI.COMM_WORLD, sys.argv[2]
"""


def run(ranks: int, program: str, out: pathlib.Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*MPIRUN, "-np", str(ranks), sys.executable, "-c", START + program,
                           str(pathlib.Path(__file__).parent), str(out)],
                          capture_output=True, text=True, timeout=100)


EQUAL = """
job = trireme.Job.from_toml(JOB, parallel=json.loads(os.environ["LAYOUT"]))
with trireme.Session(job, comm=comm) as session:
    stepped = [session.step(*batch(seed)) for seed in range(3)]
    logits, state = session.logits(batch(9, 5)[0]), session.state_dict()
    mine = (stepped, session.evaluate(*batch(9, 5)), logits.tobytes().hex(),
            {name: array.tobytes().hex() for name, array in state.items()}, session.state_hash())
    caught = int(next(line for line in open("/proc/self/status") if line.startswith("SigCgt")).split()[1], 16)
    assert not any(caught >> (number - 1) & 1 for number in (signal.SIGABRT, signal.SIGSEGV))  # no handler of Open MPI
    shards = session.sharded_state_dict()
    assert {shard.rank for pieces in shards.values() for shard in pieces} <= {comm.rank}
    if comm.rank == 1:  # one process's shards: all refuse
        name, pieces = next((name, pieces) for name, pieces in shards.items() if pieces)
        wrong = {**shards, name: [pieces[0]._replace(first=10**6)]}
    try:
        session.load_state_dict(wrong if comm.rank == 1 else shards)
        raise SystemExit("not refused")
    except trireme.Error as error:
        assert "ends at element" in str(error), error
    session.load_state_dict(shards)
    assert session.state_hash() == mine[-1]
with trireme.Session(job, comm=comm, train=Tokens()) as session:
    trained = [(record["loss"], record["grad_norm"]) for record in session.train(out)]
    mine = (*mine, trained, session.state_hash())
assert all(other == mine for other in comm.allgather(mine))
if comm.rank == 0:
    print(json.dumps(mine))
"""


@pytest.mark.parametrize("ranks,layout", [(2, {}), (2, {"pipeline": 2}), (4, {"zero": 3})])
def test_processes_have_the_bits_of_one(job: trireme.Job, tmp_path: pathlib.Path, ranks: int,
                                        layout: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYOUT", json.dumps(layout))
    done = run(ranks, EQUAL, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    stepped, evaluated, logits, state, state_hash, trained, trained_hash = json.loads(done.stdout)
    from conftest import Tokens
    with trireme.Session(job) as session:
        assert [session.step(*batch(seed)) for seed in range(3)] == stepped
        assert session.evaluate(*batch(9, 5)) == evaluated
        assert session.logits(batch(9, 5)[0]).tobytes().hex() == logits
        assert {name: array.tobytes().hex() for name, array in session.state_dict().items()} == state
        assert session.state_hash() == state_hash
    with trireme.Session(job, train=Tokens()) as session:
        assert [[record["loss"], record["grad_norm"]] for record in session.train(tmp_path / "one")] == trained
        assert session.state_hash() == trained_hash


TRAIN = """
with trireme.Session(trireme.Job.from_toml(JOB), comm=comm) as session:
    hashes = comm.allgather([record["loss"] for record in session.train(out)] + [session.state_hash()])
assert all(other == hashes[0] for other in hashes)
"""


def test_train_equals_the_program(job_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = run(2, TRAIN, tmp_path / "session")
    assert done.returncode == 0, done.stderr
    subprocess.run([*MPIRUN, "-np", "2", "trireme", "train", str(job_file), "--out", str(tmp_path / "program")],
                   check=True, capture_output=True)
    session, program = trireme.runs(tmp_path / "session")[0], trireme.runs(tmp_path / "program")[0]
    assert session.summary["state_hash"] == program.summary["state_hash"]
    for name in ("loss", "grad_norm", "comm_bytes", "peak_bytes"):
        assert session.metrics[name].tolist() == program.metrics[name].tolist()


KILLED = """
session = trireme.Session(trireme.Job.from_toml(JOB), comm=comm)
session.step(*batch(1))
comm.Barrier()
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    session.step(*batch(2))
except trireme.Error as error:
    print(f"rank {comm.rank} caught {error.code} of rank {error.rank}: {error}", flush=True)
    try:
        session.step(*batch(2))
    except trireme.Error as again:
        print(f"rank {comm.rank} again", flush=True)
"""


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_killed_rank_raises_in_the_others(tmp_path: pathlib.Path, ranks: int) -> None:
    done = run(ranks, KILLED, tmp_path)
    assert done.returncode != 0
    for rank in set(range(ranks)) - {1}:
        assert f"rank {rank} caught communication of rank 1: rank 1 (process" in done.stdout, done
        assert f"rank {rank} again" in done.stdout
    assert "died" in done.stdout


STALLED = """
session = trireme.Session(trireme.Job.from_toml(JOB, {"parallel.timeout_s": 1.0}), comm=comm)
session.step(*batch(1))
if comm.rank == 1:
    time.sleep(60)
try:
    session.step(*batch(2))
except trireme.Error as error:
    print(f"rank {comm.rank} caught {error.code} of rank {error.rank}: {error}", flush=True)
"""


def test_a_rank_that_stalls_raises_in_the_others(tmp_path: pathlib.Path) -> None:
    start = time.monotonic()
    done = run(2, STALLED, tmp_path)
    assert done.returncode != 0 and "rank 0 caught communication of rank 1: " in done.stdout, done
    assert "parallel.timeout_s" in done.stdout and "step 2" in done.stdout, done
    assert time.monotonic() - start < 60, "the job ends before the sleep does"


UNCAUGHT = """
class Broken(Tokens):
    def __getitem__(self, index):
        if comm.rank == 1:
            raise OSError("no such sample")
        return super().__getitem__(index)
with trireme.Session(trireme.Job.from_toml(JOB), comm=comm, train=Broken()) as session:
    list(session.train(out))
"""


RAISED = """
with trireme.Session(trireme.Job.from_toml(JOB), comm=comm) as session:
    session.step(*batch(1))
    if comm.rank == 1:
        raise ValueError("of a program")
    session.step(*batch(1))
"""


@pytest.mark.parametrize("program,message", [(UNCAUGHT, "OSError: no such sample"), (RAISED, "ValueError: of a program")])
def test_an_uncaught_exception_ends_the_job(tmp_path: pathlib.Path, program: str, message: str) -> None:
    done = run(2, program, tmp_path / "out")
    assert done.returncode == 1 and message in done.stderr, done


def test_refused_communicators(tmp_path: pathlib.Path) -> None:
    done = run(2, """
for wrong in (MPI.COMM_SELF, "mpi"):
    try:
        trireme.Session(trireme.Job.from_toml(JOB), comm=wrong)
    except trireme.Error as error:
        print(error, flush=True)
""", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pass MPI.COMM_WORLD") == 2 and done.stdout.count("comm is of type str") == 2


def test_alone_without_mpirun(job: trireme.Job) -> None:
    program = START + """
with trireme.Session(trireme.Job.from_toml(JOB), comm=comm) as session:
    print(session.step(*batch(1))["loss"], session.state_hash())
"""
    done = subprocess.run([sys.executable, "-c", program, str(pathlib.Path(__file__).parent), "out"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with trireme.Session(job) as session:
        assert done.stdout == f"{session.step(*batch(1))['loss']} {session.state_hash()}\n"


def test_terminated(tmp_path: pathlib.Path) -> None:
    program = START + """
with trireme.Session(trireme.Job.from_toml(JOB, {"train.steps": 1000000}), comm=comm) as session:
    for record in session.train(out):
        print(record["step"], flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program, str(pathlib.Path(__file__).parent), str(tmp_path / "out")],
                             stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "1\n"
    child.send_signal(signal.SIGTERM)
    child.stdout.read()
    assert child.wait() == 128 + signal.SIGTERM


def test_example(tmp_path: pathlib.Path) -> None:
    states = set()
    for ranks in (1, 2):
        done = subprocess.run([*MPIRUN, "-np", str(ranks), sys.executable, str(ROOT / "examples/python/under_mpirun.py")],
                              cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        states.add(done.stdout.splitlines()[-1].split()[-1])
    assert len(states) == 1
