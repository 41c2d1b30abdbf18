"""What a session computes, saves and restores; a loss of one's own."""

import pathlib
import subprocess

import numpy as np
import pytest
import trireme
from conftest import JOB, Tokens, batch


def cross_entropy(logits: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    """The sum over all targets, in double precision."""
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    p = np.exp(x)
    total = p.sum(-1, keepdims=True)
    loss = np.take_along_axis(np.log(total) - x, targets[..., None], -1).sum()
    p /= total
    np.put_along_axis(p, targets[..., None], np.take_along_axis(p, targets[..., None], -1) - 1, -1)
    return float(loss), p.astype(np.float32)


def test_evaluate_and_logits_agree(job: trireme.Job) -> None:
    inputs, targets = batch(2, count=5)  # fits no micro-batch
    with trireme.Session(job) as session:
        logits = session.logits(inputs)
        assert logits.shape == (5, 16, 64) and logits.dtype == np.float32
        loss, _ = cross_entropy(logits, targets)
        assert session.evaluate(inputs, targets) == pytest.approx(loss / targets.size, rel=1e-6)
    for layout in ({"zero": 3}, {"pipeline": 2}):
        with trireme.Session(trireme.Job.from_toml(JOB, parallel=layout), local=2) as session:
            np.testing.assert_array_equal(session.logits(inputs), logits)


def test_targets_of_minus_one_do_not_count(job: trireme.Job) -> None:
    inputs, targets = batch(2)
    targets[:, 3:] = -1
    with trireme.Session(job) as session:
        loss, _ = cross_entropy(session.logits(inputs)[:, :3], targets[:, :3])
        assert session.evaluate(inputs, targets) == pytest.approx(loss / targets[:, :3].size, rel=1e-6)


def test_evaluation_of_own_data_set(job: trireme.Job, tokens: Tokens) -> None:
    with trireme.Session(job, train=tokens, eval=tokens) as session:
        found = session.evaluate()
        inputs, targets = tokens.rows[:, :-1], tokens.rows[:, 1:]
        assert found["samples"] == 20
        assert found["loss"] == pytest.approx(session.evaluate(inputs, targets), rel=1e-6)
    with trireme.Session(job, train=tokens) as session, pytest.raises(trireme.Error, match="eval="):
        session.evaluate()


def test_state_goes_out_and_back(job: trireme.Job) -> None:
    with trireme.Session(job) as session:
        session.step(*batch(1))
        state = session.state_dict()
        logits = session.logits(batch(2)[0])
    assert sum(array.size for array in state.values()) == trireme.plan(job).to_dict()["parameters"]
    for local, layout in ((1, {}), (2, {"zero": 3}), (2, {"pipeline": 2})):
        with trireme.Session(trireme.Job.from_toml(JOB, parallel=layout), local=local) as other:
            other.load_state_dict(state)
            np.testing.assert_array_equal(other.logits(batch(2)[0]), logits)
            for name, array in other.state_dict().items():
                np.testing.assert_array_equal(array, state[name])


@pytest.mark.parametrize("local,layout", [(1, {}), (2, {}), (2, {"zero": 3}), (2, {"pipeline": 2})])
def test_shards(local: int, layout: dict[str, int]) -> None:
    job = trireme.Job.from_toml(JOB, parallel=layout)
    with trireme.Session(job, local=local) as session:
        session.step(*batch(1))
        state, shards, before = session.state_dict(), session.sharded_state_dict(), session.state_hash()
        assert list(shards) == list(state)
        for name, pieces in shards.items():
            whole, holders = np.full(state[name].size, np.nan, np.float32), np.zeros(state[name].size, np.int64)
            for rank, shape, first, values in pieces:
                assert shape == state[name].shape and 0 <= rank < local
                whole[first:first + values.size] = values
                holders[first:first + values.size] += 1
            np.testing.assert_array_equal(whole.reshape(state[name].shape), state[name])
            assert holders.min() == holders.max() == (local if not layout else 1)
    with trireme.Session(job, local=local) as other:
        initial = other.state_hash()
        first = next(name for name, pieces in shards.items() if pieces)
        with pytest.raises(trireme.Error, match=f"lacks element 0 of '{first}'.*same layout"):
            other.load_state_dict({**shards, first: []})
        piece = shards[first][0]
        with pytest.raises(trireme.Error, match="ends at element"):
            other.load_state_dict({**shards, first: [piece._replace(first=piece.first + state[first].size)]})
        assert other.state_hash() == initial
        other.load_state_dict(shards)
        for name, array in other.state_dict().items():
            np.testing.assert_array_equal(array, state[name])
        if layout.get("zero") != 3:
            other.load_state_dict(state)
    assert before != initial


def test_wrong_states_change_nothing(job: trireme.Job) -> None:
    with trireme.Session(job) as session:
        state, before = session.state_dict(), session.state_hash()
        first = next(iter(state))
        shape = ", ".join(map(str, state[first].shape))
        wrong = {
            "lacks": {name: array for name, array in state.items() if name != first},
            "has no tensor 'other'": {**state, "other": np.zeros(3, np.float32)},
            rf"the model's is \[{shape}\]": {**state, first: np.zeros((1, 2), np.float32)},
            "no finite number": {**state, first: np.full_like(state[first], np.nan)},
        }
        for message, changed in wrong.items():
            with pytest.raises(trireme.Error, match=message):
                session.load_state_dict(changed)
        assert session.state_hash() == before


def test_save_and_resume(job: trireme.Job, tmp_path: pathlib.Path) -> None:
    with trireme.Session(job, local=2) as session:
        for seed in range(2):
            session.step(*batch(seed))
        folder = session.save(tmp_path / "saved")
        assert folder.name == "step-000002"
        for seed in range(2, 4):
            session.step(*batch(seed))
        undisturbed = session.state_hash()
    with trireme.Session(job) as session:
        session.resume(tmp_path / "saved")
        assert session.steps_done == 2
        for seed in range(2, 4):
            session.step(*batch(seed))
        assert session.state_hash() == undisturbed
    listed = subprocess.run(["trireme", "checkpoint", "verify", str(folder)], capture_output=True, text=True)
    assert listed.returncode == 0, listed.stderr
    with trireme.Session(job) as session, pytest.raises(trireme.Error, match="nowhere"):
        session.resume(tmp_path / "nowhere")


def test_calls_between_the_records_of_a_training(job: trireme.Job, tmp_path: pathlib.Path) -> None:
    seen: list[int] = []
    with trireme.Session(job, local=2) as session:
        hashes = {}
        for record in session.train(tmp_path / "out", callbacks=(lambda record: seen.append(record["step"]),)):
            hashes[record["step"]] = session.state_hash()
            session.evaluate(*batch(1))
            with pytest.raises(trireme.Error, match=r"step\(\) during train\(\)"):
                session.step(*batch(1))
    assert seen == list(range(1, 7)) and len(set(hashes.values())) == 6
    with trireme.Session(job) as session:
        list(session.train(tmp_path / "undisturbed"))
        assert session.state_hash() == hashes[6]
        assert session.step(*batch(1))["step"] == 7  # the session goes on with the trained state


def test_own_loss_equals_the_built_in_one(job: trireme.Job) -> None:
    plain = {"optimizer.name": "sgd", "optimizer.momentum": 0.0, "optimizer.weight_decay": 0.0,
             "optimizer.grad_clip": 0.0}
    sgd = trireme.Job.from_toml(JOB, plain)
    with trireme.Session(sgd) as built_in, trireme.Session(sgd, loss=cross_entropy) as own:
        before = own.state_dict()
        a, b = built_in.step(*batch(1), lr=1.0), own.step(*batch(1), lr=1.0)
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-6)
        assert own.evaluate(*batch(2)) == pytest.approx(built_in.evaluate(*batch(2)), rel=1e-6)
        after = built_in.state_dict()
        for name, array in own.state_dict().items():
            # The update is the gradient, as far as the parameter's own rounding lets see it.
            assert (np.abs(array - after[name]) <= 1e-7 + np.spacing(np.abs(before[name]))).all(), name
    results = set()
    for local, layout in ((1, {}), (2, {"pipeline": 2}), (2, {"zero": 2})):
        with trireme.Session(trireme.Job.from_toml(JOB, plain, parallel=layout), local=local,
                             loss=cross_entropy) as session:
            session.step(*batch(1))
            results.add(session.state_hash())
    assert len(results) == 1
