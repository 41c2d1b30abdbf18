"""Arrays and data sets of the caller, as the engine takes them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ._errors import Error

Array = npt.NDArray[Any]


class Dataset(Protocol):
    """A data set of one's own: any object with these two methods. `fingerprint`, a str, may name its contents.

    An index is in [0, len). The result is one sample, (input, target): arrays, or what NumPy makes one of.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> tuple[Any, Any]: ...


#: Arrays that were copied to fit, since the import: for tests and measurements.
num_copies = 0


#: Kinds of devices of DLPack whose memory the host reads: CPU, and pinned memory of CUDA.
_HOST_MEMORY = (1, 3)


def _from_dlpack(value: Any, what: str) -> Array:
    global num_copies
    try:
        if value.__dlpack_device__()[0] in _HOST_MEMORY:
            return np.from_dlpack(value)
        num_copies += 1
        return np.from_dlpack(value, device="cpu", copy=True)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise Error(f"{what}: the memory of this {type(value).__name__} cannot be read through DLPack: {error}; pass a "
                    "copy in host memory (tensor.detach().cpu())", field=what) from error


def as_array(value: Any, dtype: str, what: str) -> Array:
    """`value` as a row-major array of `dtype`, without a copy where its layout and dtype allow.

    `value` is an array of NumPy, an object with DLPack, or a list. Memory of a GPU is copied to the host. Integers are
    converted to int32 and floating-point numbers to float32; other conversions raise Error.
    """
    global num_copies
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        array = _from_dlpack(value, what)
    else:
        array = np.asarray(value)
    wanted = np.dtype(dtype)
    if array.dtype == wanted and array.flags.c_contiguous:
        return array
    same_kind = np.issubdtype(array.dtype, np.integer if wanted.kind == "i" else np.floating)
    if not same_kind:
        raise Error(f"{what} are {array.dtype}, and the job needs {dtype}", field=what)
    if wanted.kind == "i" and array.size and array.dtype.itemsize >= 4 and array.dtype != wanted:
        limits = np.iinfo(wanted)
        if array.min() < limits.min or array.max() > limits.max:
            raise Error(f"{what} have values outside of {dtype}", field=what)
    num_copies += 1
    return np.ascontiguousarray(array, dtype=wanted)


class SampleReader:
    """Reads batches of a caller's data set for the engine, from several threads."""

    def __init__(self, dataset: Dataset, key: str, input_spec: tuple[tuple[int, ...], str],
                 target_spec: tuple[tuple[int, ...], str]) -> None:
        self._dataset = dataset
        self._key = key
        self._input, self._target = input_spec, target_spec
        #: The exception of the data set, to be the cause of the engine's.
        self.failure: BaseException | None = None

    def as_tuple(self) -> tuple[int, Any, int]:
        """What the engine takes: number of samples, read function, hash of the fingerprint."""
        count = len(self._dataset)
        text = getattr(self._dataset, "fingerprint", None)
        text = text if isinstance(text, str) else type(self._dataset).__qualname__
        digest = hashlib.blake2b(f"{text}\n{count}".encode(), digest_size=8).digest()
        return count, self.read, int.from_bytes(digest, "little")

    def read(self, indices: Sequence[int]) -> tuple[Array, Array]:
        """The samples of these indices, stacked."""
        inputs = np.empty((len(indices), *self._input[0]), self._input[1])
        targets = np.empty((len(indices), *self._target[0]), self._target[1])
        for row, index in enumerate(indices):
            try:
                sample = self._dataset[index]
                if not isinstance(sample, tuple) or len(sample) != 2:
                    raise TypeError("a sample is a tuple, (input, target)")
                for out, value, name in ((inputs, sample[0], "input"), (targets, sample[1], "target")):
                    array = as_array(value, out.dtype.name, name)
                    if array.shape != out.shape[1:]:
                        raise ValueError(f"the {name} has the shape {array.shape}, "
                                         f"and the job's samples need {out.shape[1:]}")
                    out[row] = array
            except Exception as error:
                if self.failure is None:
                    self.failure = error
                raise RuntimeError(f"{self._key}[{index}]: {type(error).__name__}: {error}") from error
        return inputs, targets
