"""A session: a job on the ranks of this process."""

from __future__ import annotations

import atexit
import json
import os
import pathlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from . import _core, _mpi
from ._blocks import Blocks
from ._data import Array, Dataset, SampleReader, as_array
from ._errors import Error
from ._job import Job, core_of

FloatArray = npt.NDArray[np.float32]
#: logits [B, ..., C] and targets [B, ...] of a micro-batch -> (sum of the loss, gradient of the logits).
Loss = Callable[[FloatArray, Array], tuple[float, Any]]


class Shard(NamedTuple):
    """Elements of a tensor that a rank holds."""

    rank: int
    #: Shape of the whole tensor.
    shape: tuple[int, ...]
    #: `values` are elements [first, first + len(values)) of the flat tensor.
    first: int
    values: FloatArray


_open: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # Threads of ranks must not outlive the interpreter, nor communicators MPI.
    _mpi.end_failed_job()
    for session in list(_open):
        session.close()
    _mpi.leave()


class Session:
    """A job on `local` ranks, the threads of this process, or on the processes of mpirun.

        with trireme.Session(job, local=2) as session:
            for record in session.train("out/"):
                print(record["step"], record["loss"])

    Either train() runs the job's own loop, on its data or on data sets of yours; or step(), evaluate() and
    logits() compute on arrays of yours. The state has the same bits for every `local` and every layout.
    The interpreter's lock is free while ranks compute. Use a session from one thread at a time.

    `train`, `eval`: data sets of your own (see Dataset); the job then has data.kind = "synthetic", whose
    samples they replace. They are read in the order of training of Trireme's data sets, from other threads.
    `loss`: your own, in place of the model's. It gets logits [B, ..., C] float32 and targets [B, ...] of a
    micro-batch, copies of the engine's, and returns the sum of the loss over the targets, and its gradient
    with respect to the logits, float32 of their shape. The engine divides both by the number of targets of
    the global batch. Called from the threads of all ranks, also again for the same batch.

    `blocks`: your own in C++ (load_blocks()), in place of those of the job's model, whose samples stay. plan() still
    describes the job's model, and checkpoints name it: only sessions with the same blocks can read them.

    `comm`: MPI.COMM_WORLD of mpi4py, in a program that mpirun starts; each process is a rank. All make the same calls
    with the same arguments, whole batches included, and get the same results. If a process dies or stalls, the calls
    of the others raise Error with the culprit, and all end when the interpreter exits. So they do after an uncaught
    exception.
    """

    def __init__(self, job: Job, *, local: int = 1, comm: Any = None, train: Dataset | None = None,
                 eval: Dataset | None = None, loss: Loss | None = None,
                 blocks: Blocks | None = None) -> None:
        if comm is not None and local != 1:
            raise Error("local= is for ranks as threads, and comm= for ranks as processes: set one of them",
                        field="local")
        if eval is not None and train is None:
            raise Error("eval= needs train=: both data sets are yours, or both are the job's", field="eval")
        if blocks is not None and not isinstance(blocks, Blocks):
            raise TypeError(f"blocks is of type {type(blocks).__name__}: pass what load_blocks() returns")
        self.job = job
        self._specs = core_of(job).input(), core_of(job).target()
        self._readers = [None if data is None else SampleReader(data, name, *self._specs)
                         for data, name in ((train, "train"), (eval, "eval"))]
        tuples = [None if reader is None else reader.as_tuple() for reader in self._readers]
        self._loss_failure: BaseException | None = None
        self._loss = loss
        mpi = None if comm is None else _mpi.ranks_of(comm)
        self._core = _core.Session(job._core, local, mpi, tuples[0], tuples[1],
                                   None if loss is None else self._call_loss, None if blocks is None else blocks._core)
        self._process = os.getpid()
        _open.add(self)

    def _call_loss(self, logits: FloatArray, targets: Array) -> tuple[float, FloatArray]:
        assert self._loss is not None
        try:
            loss, gradient = self._loss(logits, targets)
            gradient = as_array(gradient, "float32", "the gradient of a loss")
            if gradient.shape != logits.shape:
                raise ValueError(f"the gradient has the shape {gradient.shape}, and the logits {logits.shape}")
            return float(loss), gradient
        except Exception as error:
            self._loss_failure = error
            raise

    def _with_cause(self, error: Error) -> Error:
        """The engine's error, raised from the exception in a function of the caller, if there was one."""
        readers = [reader for reader in self._readers if reader is not None]
        causes = [self._loss_failure, *(reader.failure for reader in readers)]
        error.__cause__ = next((cause for cause in causes if cause is not None), None)
        self._loss_failure = None
        for reader in readers:
            reader.failure = None
        return error

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Error as error:
            raise self._with_cause(error) from error.__cause__

    def _arrays(self, inputs: Any, targets: Any) -> tuple[Array, Array]:
        return as_array(inputs, self._specs[0][1], "inputs"), as_array(targets, self._specs[1][1], "targets")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends a training that is in progress, with a checkpoint, and frees the ranks. Safe to repeat."""
        _open.discard(self)
        if self._process == os.getpid():
            self._core.close()

    @property
    def steps_done(self) -> int:
        """Steps of the state."""
        return self._core.steps_done()

    def train(self, out: str | pathlib.Path | None = None, *, verbose: bool = False,
              callbacks: tuple[Callable[[dict[str, Any]], object], ...] = ()) -> Iterator[dict[str, Any]]:
        """Runs the job as `trireme train` does, and yields the records of metrics.jsonl: steps and evaluations.

        `out`: the output folder; default runs/ and the job's name. It gets metrics.jsonl, checkpoints and
        summary.json, and the training continues from its newest checkpoint (checkpoint.resume). `verbose`
        prints the progress. `callbacks` are called with each record before it is yielded. Ranks pause after
        each step until the next record is asked for; meanwhile evaluate(), logits(), state_dict() and
        state_hash() work on the state. Closing the generator or the session, and Ctrl-C, which raises
        KeyboardInterrupt, end the training after the next step, with a checkpoint.
        """
        folder = pathlib.Path("runs") / self.job.name if out is None else pathlib.Path(out)
        self._call(self._core.start_training, str(folder), verbose)
        return self._records(callbacks)

    def _records(self, callbacks: tuple[Callable[[dict[str, Any]], object], ...]) -> Iterator[dict[str, Any]]:
        try:
            while (line := self._call(self._core.next_record)) is not None:
                record: dict[str, Any] = json.loads(line)
                for callback in callbacks:
                    callback(record)
                yield record
        finally:
            if self in _open:
                self._call(self._core.stop_training)

    def step(self, inputs: Any, targets: Any, lr: float | None = None) -> dict[str, Any]:
        """One optimizer step on a global batch.

        `inputs`, `targets`: [train.global_batch, ...], shaped and typed as the job's samples: tokens [B, T] and
        labels int32, images [B, H, W, 3] float32. NumPy or DLPack; contiguous arrays of these dtypes in host
        memory are read in place, and tensors on a GPU are copied to the host. A target of -1 does not count.
        `lr`: default, the job's schedule.
        Returns step, loss (mean over the targets), grad_norm (before clipping), loss_scale and skipped.
        """
        result: dict[str, Any] = self._call(self._core.step, *self._arrays(inputs, targets), lr)
        return result

    def rounds(self) -> list[npt.NDArray[np.int64]]:
        """The rounds of a step: samples of the global batch, one micro-batch for each data rank, in their order.

        For steps in parts. With the samples of rounds(), these have the bits of step(inputs, targets):

            for samples in session.rounds():
                session.accumulate(inputs[samples], targets[samples])
            session.update()
        """
        return [np.array(samples, np.int64) for samples in self._call(self._core.rounds)]

    def forward(self, inputs: Any, targets: Any, num_targets: int | None = None) -> float:
        """The forwards of the next round, whose mean loss it returns; backward() must follow.

        `num_targets`: targets of the whole step that count, required in the first round if some are -1. Not with a
        pipeline, whose plan orders forwards and backwards. Until update(), other calls raise Error.
        """
        result: float = self._call(self._core.forward, *self._arrays(inputs, targets), num_targets)
        return result

    def backward(self) -> None:
        """The backwards of the round, which add to the gradients of the step."""
        self._call(self._core.backward)

    def accumulate(self, inputs: Any, targets: Any, num_targets: int | None = None) -> float:
        """forward() and backward()."""
        loss = self.forward(inputs, targets, num_targets)
        self.backward()
        return loss

    def update(self, lr: float | None = None) -> dict[str, Any]:
        """The update after the last round; arguments and result as in step()."""
        result: dict[str, Any] = self._call(self._core.update, lr)
        return result

    def evaluate(self, inputs: Any = None, targets: Any = None) -> Any:
        """Mean loss over the targets of these samples, a float; any number of samples.

        Without arguments, evaluates the job's data.eval, or the session's eval=, as a training does: a dict
        with loss and samples, and top1 and top5 for classes.
        """
        if inputs is None and targets is None:
            return self._call(self._core.evaluate_data)
        return self._call(self._core.evaluate, *self._arrays(inputs, targets))

    def logits(self, inputs: Any) -> FloatArray:
        """Logits [B, ..., C] float32 of the whole model, with any layout; inputs as in step()."""
        result: FloatArray = self._call(self._core.logits, as_array(inputs, self._specs[0][1], "inputs"))
        return result

    @overload
    def generate(self, prompt: str, tokens: int = 100, *, temperature: float = 0.8, top_k: int = 0, top_p: float = 1.0,
                 seed: int = 0, vocab: int = 0, tokenizer: str | pathlib.Path | None = None) -> str: ...
    @overload
    def generate(self, prompt: Any, tokens: int = 100, *, temperature: float = 0.8, top_k: int = 0, top_p: float = 1.0,
                 seed: int = 0, vocab: int = 0) -> npt.NDArray[np.int32]: ...
    def generate(self, prompt: Any, tokens: int = 100, *, temperature: float = 0.8, top_k: int = 0, top_p: float = 1.0,
                 seed: int = 0, vocab: int = 0, tokenizer: str | pathlib.Path | None = None) -> Any:
        """Continues `prompt`, a text or at least one token, as `trireme sample` with this seed.

        Returns the new text for a text, and else the new tokens, int32. `tokens`: their number. `temperature`: 0 always
        takes the most likely token. `top_k`: choose among the k most likely; 0: all. `top_p`: among these, the fewest
        with this total probability. `vocab`: choose among the first tokens, if the model's vocabulary is padded; 0: all,
        for a text those of its tokenizer. `tokenizer`, for a text: "bytes" or a path, as `trireme data text` takes it;
        default, that of data.train. Needs parallel.pipeline = 1 and parallel.tensor = 1.
        """
        if isinstance(prompt, str):
            text = self._call(_core.Tokenizer.load, self.job._core, None if tokenizer is None else str(tokenizer))
            begin = text.encode(prompt) if prompt else []
            new = self.generate(begin or text.document_separator(), tokens, temperature=temperature, top_k=top_k,
                                top_p=top_p, seed=seed, vocab=vocab or text.vocab_size)
            # With the prompt: the first token may decode differently without it.
            whole: bytes = self._call(text.decode, begin + new.tolist())
            return whole[len(text.decode(begin)):].decode("utf-8", "replace")
        if tokenizer is not None:
            raise TypeError("tokenizer= is for a prompt that is a text")
        given = as_array(prompt, "int32", "the prompt")
        if given.ndim != 1:
            raise Error(f"the prompt has the shape {given.shape}, and must be a row of tokens", field="prompt")
        result = self._call(self._core.generate, given.tolist(), tokens, temperature, top_k, top_p, seed, vocab)
        return np.array(result, np.int32)

    def state_dict(self) -> dict[str, FloatArray]:
        """Parameters and running statistics by the names of model.safetensors, float32, gathered over ranks."""
        entries = self._call(self._core.state_entries)
        state = {name: np.empty(shape, np.float32) for name, shape in entries}
        self._call(self._core.read_state, [(name, array.shape, 0, array) for name, array in state.items()])
        return state

    def sharded_state_dict(self) -> dict[str, list[Shard]]:
        """What each rank of this process holds of state_dict(), without messages: one rank under mpirun, else all.

        Ranks that hold the same elements have a shard each.
        """
        shapes = dict(self._call(self._core.state_entries))
        state: dict[str, list[Shard]] = {name: [] for name in shapes}
        for rank, name, first, values in self._call(self._core.read_shards):
            state[name].append(Shard(rank, shapes[name], first, values))
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets what state_dict() returns, or sharded_state_dict() of a session with the same layout.

        Raises Error for other names or shapes, before anything changes.
        """
        shapes = dict(self._call(self._core.state_entries))
        pieces = []
        for name, value in state.items():
            if not isinstance(value, list) or not all(isinstance(shard, Shard) for shard in value):
                array = as_array(value, "float32", name)
                value = [Shard(0, array.shape, 0, array)]
            for shard in value or [Shard(0, shapes.get(name, ()), 0, np.empty(0, np.float32))]:
                array = as_array(shard.values, "float32", name)
                pieces.append((name, shard.shape, shard.first, array if array.flags.writeable else array.copy()))
        self._call(self._core.load_state, pieces)

    def state_hash(self) -> str:
        """Hash of parameters and optimizer state in global order: 16 hexadecimal digits, as in summary.json."""
        result: str = self._call(self._core.state_hash)
        return result

    def save(self, out: str | pathlib.Path) -> pathlib.Path:
        """Writes a checkpoint into out/checkpoints, for resume() and the commands of trireme."""
        return pathlib.Path(self._call(self._core.save, str(out)))

    def resume(self, place: str | pathlib.Path) -> None:
        """Continues from a checkpoint's folder, or from the newest one of an output folder."""
        self._call(self._core.resume, str(place))
