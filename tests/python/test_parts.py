"""Steps in parts, and generated tokens."""

import pathlib
import subprocess
from typing import Any

import numpy as np
import pytest
import trireme
from conftest import JOB, batch

LAYOUTS: list[tuple[int, dict[str, Any]]] = [(1, {}), (2, {}), (2, {"zero": 3}), (4, {"zero": 1}), (2, {"tensor": 2})]


@pytest.mark.parametrize("local,layout", LAYOUTS)
def test_parts_equal_a_step(local: int, layout: dict[str, Any]) -> None:
    chunks = {"model.tensor_chunks": 2} if "tensor" in layout else {}
    job = trireme.Job.from_toml(JOB, chunks, parallel=layout)
    with trireme.Session(job, local=local) as whole, trireme.Session(job, local=local) as parts:
        for seed in range(3):
            inputs, targets = batch(seed)
            record = whole.step(inputs, targets)
            losses = []
            for samples in parts.rounds():
                losses.append(parts.forward(inputs[samples], targets[samples]))
                parts.backward()
            assert parts.update() == record
            assert np.mean(losses) == pytest.approx(record["loss"], rel=1e-6)
        assert parts.state_hash() == whole.state_hash()
        assert parts.step(*batch(9)) == whole.step(*batch(9)), "whole steps follow steps in parts"


def test_rate_and_uncounted_targets(job: trireme.Job) -> None:
    inputs, targets = batch(1)
    targets[:, 5:] = -1
    with trireme.Session(job) as whole, trireme.Session(job) as parts:
        record = whole.step(inputs, targets, lr=5e-4)
        first, *others = parts.rounds()
        with pytest.raises(trireme.Error, match="pass num_targets="):
            parts.accumulate(inputs[first], targets[first])
        parts.accumulate(inputs[first], targets[first], num_targets=40)
        for samples in others:
            parts.accumulate(inputs[samples], targets[samples])
        assert parts.update(lr=5e-4) == record
        assert parts.state_hash() == whole.state_hash()


def test_calls_out_of_order(job: trireme.Job) -> None:
    inputs, targets = batch(1)
    with trireme.Session(job, local=2) as session:
        first, second = session.rounds()
        with pytest.raises(trireme.Error, match=r"backward\(\) after 0 of the 2 rounds.*forward\(\)"):
            session.backward()
        session.forward(inputs[first], targets[first])
        with pytest.raises(trireme.Error, match=r"update\(\) after 1 of the 2 rounds.*backward\(\)"):
            session.update()
        with pytest.raises(trireme.Error, match=r"step\(\) during a step in parts"):
            session.step(inputs, targets)
        with pytest.raises(trireme.Error, match=r"state_hash\(\) during a step in parts"):
            session.state_hash()
        session.backward()
        with pytest.raises(trireme.Error, match="a round takes 4 samples"):
            session.accumulate(inputs, targets)
        session.accumulate(inputs[second], targets[second])
        assert session.update()["step"] == 1
    with trireme.Session(job) as session:  # closed during a step
        session.forward(inputs[:2], targets[:2])
    with trireme.Session(trireme.Job.from_toml(JOB, parallel={"pipeline": 2}), local=2) as session:
        with pytest.raises(trireme.Error, match="parallel.pipeline"):
            session.rounds()


def test_generated_tokens_are_those_of_the_program(tmp_path: pathlib.Path) -> None:
    job = trireme.Job.from_toml(JOB, {"model.vocab": 256, "model.seq_len": 32})
    prompt = "In the beginning"
    with trireme.Session(job, local=2) as session:
        rows = np.random.default_rng(1).integers(32, 127, (8, 33), dtype=np.int32)
        session.step(rows[:, :-1], rows[:, 1:], lr=1e-2)
        folder = session.save(tmp_path)
        for options in ({"temperature": 0.0}, {"temperature": 0.8, "seed": 5}, {"top_k": 7, "seed": 6},
                        {"top_p": 0.5, "temperature": 2.0}):
            tokens = session.generate(list(prompt.encode()), 40, **options)  # type: ignore[arg-type]
            assert tokens.shape == (40,) and tokens.dtype == np.int32
            flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
            done = subprocess.run(["trireme", "sample", str(folder), "--tokenizer", "bytes", "--prompt", prompt,
                                   "--tokens", "40", *flags], capture_output=True, check=True)
            assert done.stdout[:-1] == prompt.encode() + bytes(tokens.astype(np.uint8))
            text = session.generate(prompt, 40, tokenizer="bytes", **options)  # type: ignore[arg-type]
            assert text == bytes(tokens.astype(np.uint8)).decode("utf-8", "replace")
        assert session.generate("", 5, tokenizer="bytes", temperature=0.0) == \
            bytes(session.generate(list(b"\n\n"), 5, temperature=0.0).astype(np.uint8)).decode("utf-8", "replace")
        with pytest.raises(trireme.Error, match='pass tokenizer="bytes"'):
            session.generate(prompt, 1)
        with pytest.raises(TypeError, match="a prompt that is a text"):
            session.generate([1], 1, tokenizer="bytes")  # type: ignore[call-overload]
        with pytest.raises(trireme.Error, match="token 256"):
            session.generate([256], 1)
        with pytest.raises(trireme.Error, match="at least one token"):
            session.generate(np.zeros(0, np.int32), 1)
        with pytest.raises(trireme.Error, match="a row of tokens"):
            session.generate(np.zeros((2, 2), np.int32), 1)


def test_texts_have_the_tokenizer_of_the_data(tmp_path: pathlib.Path) -> None:
    (tmp_path / "text.txt").write_text("In the beginning there was a text, and it was short.\n" * 200)
    subprocess.run(["trireme", "data", "text", str(tmp_path / "text.txt"), "--out", str(tmp_path / "data")], check=True,
                   capture_output=True)
    keys = {"model.vocab": 256, "data.kind": "tokens", "data.train": str(tmp_path / "data")}
    with trireme.Session(trireme.Job.from_toml(JOB, keys)) as session:
        new = session.generate(list(b"In the"), 20, seed=3)
        assert session.generate("In the", 20, seed=3) == bytes(new.astype(np.uint8)).decode("utf-8", "replace")
