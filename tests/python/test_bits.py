"""Equal bits: the program, and sessions on all layouts and inputs."""

import json
import pathlib
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
import trireme
from conftest import JOB, Tokens, batch
from trireme import _data

LAYOUTS: list[tuple[int, dict[str, int]]] = [(1, {}), (2, {}), (2, {"zero": 3}), (2, {"pipeline": 2}), (4, {"zero": 1})]


def steps(job: trireme.Job, local: int, count: int = 3) -> tuple[str, list[float]]:
    with trireme.Session(job, local=local) as session:
        losses = [session.step(*batch(seed))["loss"] for seed in range(count)]
        return session.state_hash(), losses


def test_train_equals_the_program(job: trireme.Job, job_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    subprocess.run(["trireme", "train", str(job_file), "--out", str(tmp_path / "program")], check=True,
                   capture_output=True)
    summary = json.loads((tmp_path / "program" / "summary.json").read_text())
    program = trireme.runs(tmp_path / "program")[0].metrics
    for local in (1, 2, 4):
        with trireme.Session(job, local=local) as session:
            records = list(session.train(tmp_path / f"session{local}"))
            assert session.state_hash() == summary["state_hash"]
            assert session.steps_done == 6
        assert [record["loss"] for record in records] == list(program["loss"])
        assert [record["grad_norm"] for record in records] == list(program["grad_norm"])


@pytest.mark.parametrize("local,layout", LAYOUTS)
def test_steps_are_equal_on_layouts(job: trireme.Job, local: int, layout: dict[str, int]) -> None:
    assert steps(trireme.Job.from_toml(JOB, parallel=layout), local) == steps(job, 1)


def test_own_data_equals_steps_on_its_samples(job: trireme.Job, tokens: Tokens, tmp_path: pathlib.Path) -> None:
    one_reader = trireme.Job.from_toml(JOB, {"data.workers": 1})
    with trireme.Session(one_reader, train=tokens) as session:
        losses = [record["loss"] for record in session.train(tmp_path / "own")]
        trained = session.state_hash()
    order = np.array(tokens.order[:48]).reshape(6, 8)
    assert sorted(tokens.order[:20]) == list(range(20)), "the first pass reads every sample once"
    with trireme.Session(job, local=2) as session:
        stepped = [session.step(tokens.rows[rows, :-1], tokens.rows[rows, 1:])["loss"] for rows in order]
        assert (stepped, session.state_hash()) == (losses, trained)
    for local, layout in LAYOUTS[2:]:
        other = trireme.Job.from_toml(JOB, parallel=layout)
        with trireme.Session(other, local=local, train=Tokens()) as session:
            assert [record["loss"] for record in session.train(tmp_path / f"own{local}{layout}")] == losses
            assert session.state_hash() == trained


class WithDlpack:
    """An array that is known by DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_inputs_are_not_copied_where_they_fit(job: trireme.Job) -> None:
    inputs, targets = batch(1)
    results = []
    for convert, copies in ((lambda a: a, 0), (WithDlpack, 0), (lambda a: a.astype(np.int64), 2),
                            (np.asfortranarray, 2), (lambda a: a.tolist(), 2)):
        with trireme.Session(job) as session:
            before = _data.num_copies
            session.step(convert(inputs), convert(targets))
            assert _data.num_copies - before == copies
            results.append(session.state_hash())
    assert len(set(results)) == 1


class OnGpu(WithDlpack):
    """A tensor that claims to be on a GPU, and copies itself to the host if asked for."""

    def __dlpack__(self, *, dl_device: Any = None, copy: Any = None, **options: Any) -> Any:
        if dl_device is None or tuple(dl_device) != (1, 0) or not copy:
            raise BufferError("of a GPU")
        return self.array.copy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class OnlyOnGpu(OnGpu):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("cannot leave the GPU")


def test_tensors_on_a_gpu_are_copied_or_refused(job: trireme.Job) -> None:
    inputs, targets = batch(1)
    with trireme.Session(job) as on_host, trireme.Session(job) as on_gpu:
        before = _data.num_copies
        assert on_gpu.step(OnGpu(inputs), OnGpu(targets)) == on_host.step(inputs, targets)
        assert _data.num_copies - before == 2
        with pytest.raises(trireme.Error, match=r"OnlyOnGpu cannot be read.*cannot leave the GPU.*cpu\(\)"):
            on_gpu.step(OnlyOnGpu(inputs), targets)


def test_threads_of_python_go_on_during_a_step(job: trireme.Job) -> None:
    def loss(logits: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
        # Called inside of a step: the other thread must get the lock, and this one must get it back.
        inside.set()
        assert seen.wait(60)
        return 0.0, np.zeros_like(logits)

    inside, seen = threading.Event(), threading.Event()

    def other() -> None:
        assert inside.wait(60)
        seen.set()

    thread = threading.Thread(target=other)
    thread.start()
    with trireme.Session(job, loss=loss) as session:
        session.step(*batch(1))
    thread.join()
    # Without a call of Python inside: another thread counts while the main thread is in C++.
    counts: list[int] = []
    stop = threading.Event()

    def count() -> None:
        while not stop.is_set():
            counts.append(1)
            time.sleep(0)

    with trireme.Session(job) as session:
        session.step(*batch(1))
        thread = threading.Thread(target=count)
        sys.setswitchinterval(1e6)  # the thread gets the lock only where the main thread gives it away
        try:
            thread.start()
            before = len(counts)
            inputs, targets = batch(1)
            for _ in range(2000):
                session.step(inputs, targets)
                if len(counts) > before:
                    break
            assert len(counts) > before
        finally:
            sys.setswitchinterval(0.005)
            stop.set()
            thread.join()


def test_learning_rate(job: trireme.Job) -> None:
    with trireme.Session(job) as given, trireme.Session(job) as schedule, trireme.Session(job) as other:
        given.step(*batch(1), lr=1e-3)
        schedule.step(*batch(1))
        other.step(*batch(1), lr=2e-3)
        assert given.state_hash() == schedule.state_hash() != other.state_hash()
