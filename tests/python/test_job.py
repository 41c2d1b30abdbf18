"""Jobs, their errors, and plans."""

import json
import pathlib
import subprocess

import pytest
import trireme
from conftest import JOB


def test_keys_and_overrides(job_file: pathlib.Path) -> None:
    job = trireme.Job.from_toml(job_file, {"train.steps": 9}, parallel={"zero": 2})
    assert (job.name, job["train.steps"], job["parallel.zero"], job["model.vocab"]) == ("small", 9, 2, 64)
    assert job["optimizer.betas"] == [0.9, 0.95]
    assert trireme.Job.from_toml(job_file, **{"train.steps": 9})["train.steps"] == 9
    with pytest.raises(KeyError, match="train.stepz"):
        job["train.stepz"]


def test_resolved_text_is_the_same_job(job: trireme.Job) -> None:
    assert trireme.Job.from_toml(job.to_toml()).to_toml() == job.to_toml()
    assert job.to_dict()["train"]["global_batch"] == 8


def test_words_and_numbers_reach_the_key(job_file: pathlib.Path) -> None:
    job = trireme.Job.from_toml(job_file, {"precision.mode": "bf16", "optimizer.betas": [0.8, 0.9],
                                           "parallel.oversubscribe": False, "optimizer.lr": 1e-05})
    assert (job["precision.mode"], job["optimizer.betas"], job["optimizer.lr"]) == ("bf16", [0.8, 0.9], 1e-5)


def test_errors_name_place_and_remedy(tmp_path: pathlib.Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(JOB.replace("steps = 6", "stepz = 6"))
    with pytest.raises(trireme.Error, match=r"bad.toml:\d+:1: unknown key train.stepz.*train.steps") as info:
        trireme.Job.from_toml(bad)
    assert info.value.code == "invalid_input" and info.value.rank is None
    with pytest.raises(trireme.Error, match="cannot be read") as missing:
        trireme.Job.from_toml(tmp_path / "none.toml")
    assert missing.value.file == str(tmp_path / "none.toml")
    with pytest.raises(TypeError, match="NoneType"):
        trireme.Job.from_toml(JOB, {"train.steps": None})


def test_plan_is_that_of_the_program(job: trireme.Job, job_file: pathlib.Path) -> None:
    plan = trireme.plan(job, ranks=4)
    text = subprocess.run(["trireme", "plan", str(job_file), "--ranks", "4", "--json"], check=True,
                          capture_output=True, text=True).stdout
    assert plan.to_dict() == json.loads(text)
    assert plan.ranks == 4 and plan.fits
    memory = plan.memory(3)
    assert 0 < memory["parameters"] < memory["total"] <= sum(memory.values()) - memory["total"]
    assert plan._repr_html_().count("<tr>") == 5 and "MiB" in plan._repr_html_()
    with pytest.raises(IndexError, match="rank 4"):
        plan.memory(4)


def test_refused_plans(job: trireme.Job, job_file: pathlib.Path) -> None:
    with pytest.raises(trireme.Error, match="global_batch|micro"):
        trireme.plan(job, ranks=5)
    with pytest.raises(trireme.Error, match="trireme plan") as info:
        trireme.plan(trireme.Job.from_toml(job_file, {"parallel.layout": "auto"}), ranks=2)
    assert info.value.code == "unsupported"
