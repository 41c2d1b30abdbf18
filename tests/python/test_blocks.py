"""Blocks in C++ from a shared library."""

import os
import pathlib
import subprocess

import numpy as np
import pytest
import trireme
from conftest import JOB, batch

LIBRARY = os.environ.get("TRIREME_OWN_BLOCKS", "")
needs_library = pytest.mark.skipif(not LIBRARY, reason="TRIREME_OWN_BLOCKS does not name the library of own_blocks.cc")


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def logits_of(state: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    """The model of own_blocks.cc, in double precision."""
    w = {name: value.astype(np.float64) for name, value in state.items()}
    x = w["embedding.tokens"][tokens] + w["embedding.positions"]
    for layer in range(2):
        inner = x @ w[f"networks.{layer}.up.weight"].T
        gelu = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        x = x + gelu @ w[f"networks.{layer}.down.weight"].T
    return layer_norm(x, w["head.norm.weight"], w["head.norm.bias"]) @ w["embedding.tokens"].T


@needs_library
def test_blocks_take_the_place_of_the_models() -> None:
    blocks = trireme.load_blocks(LIBRARY, inner=48)
    results = set()
    for local, layout in ((1, {}), (2, {"zero": 3}), (2, {"pipeline": 2})):
        job = trireme.Job.from_toml(JOB, parallel=layout)
        with trireme.Session(job, local=local, blocks=blocks) as session:
            losses = [session.step(*batch(1))["loss"] for _ in range(5)]
            assert losses[-1] < losses[0]
            state, inputs = session.state_dict(), batch(2)[0]
            expected = logits_of(state, inputs)
            np.testing.assert_allclose(session.logits(inputs), expected, atol=1e-5 * np.abs(expected).max())
            results.add(session.state_hash())
        assert state["networks.1.up.weight"].shape == (48, 32) and not any("attention" in name for name in state)
    assert len(results) == 1


@needs_library
def test_errors_of_the_library(job: trireme.Job) -> None:
    for options, message in (({}, "need the option inner"), ({"inner": "wide"}, 'inner of the blocks is "wide"')):
        blocks = trireme.load_blocks(LIBRARY, **options)
        with trireme.Session(job, local=2, blocks=blocks) as session, pytest.raises(trireme.Error, match=message) as info:
            session.step(*batch(1))
        assert info.value.code == "invalid_input"


@needs_library
@pytest.mark.parametrize("layout", [{"layout": "auto"}, {"pipeline": 2, "pipeline_cut": "measured"}])
def test_layouts_that_measure_the_model_are_refused(layout: dict[str, object]) -> None:
    job = trireme.Job.from_toml(JOB, parallel=layout)
    with pytest.raises(trireme.Error, match="measurements of the job's model") as info:
        trireme.Session(job, local=2, blocks=trireme.load_blocks(LIBRARY, inner=8))
    assert info.value.code == "unsupported"


def compiled(folder: pathlib.Path, text: str) -> pathlib.Path:
    (folder / "library.cc").write_text(text)
    subprocess.run(["c++", "-shared", "-fPIC", "-o", folder / "library.so", folder / "library.cc"], check=True)
    return folder / "library.so"


OTHER = """
extern "C" const char* trireme_block_interface() { return "Trireme 0.0.1, sources 0, compiler 1"; }
extern "C" void trireme_build_blocks(void*, void*) {}
"""


@pytest.mark.parametrize("text,message", [
    (OTHER, r'built for "Trireme 0.0.1, .*", and this is "Trireme \d.*": build the library again'),
    ("int other() { return 1; }", "has no blocks; name their function with TRIREME_BLOCKS"),
    ("void missing(); void other() { missing(); }", "cannot be loaded: .*undefined symbol"),
])
def test_other_libraries_are_refused(tmp_path: pathlib.Path, text: str, message: str) -> None:
    library = compiled(tmp_path, text)
    with pytest.raises(trireme.Error, match=message) as info:
        trireme.load_blocks(library)
    assert info.value.file == str(library)
    with pytest.raises(trireme.Error, match="cannot be loaded: .*No such file"):
        trireme.load_blocks(tmp_path / "nowhere.so")


def test_a_library_that_was_built_again_is_refused(tmp_path: pathlib.Path) -> None:
    os.utime(compiled(tmp_path, OTHER), (1, 1))
    with pytest.raises(trireme.Error, match="built for"):
        trireme.load_blocks(tmp_path / "library.so")
    with pytest.raises(trireme.Error, match="has changed since this process loaded it: start Python again"):
        trireme.load_blocks(compiled(tmp_path, OTHER.replace("0.0.1", "0.0.2")))
