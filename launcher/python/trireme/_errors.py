"""The exception of the engine."""

from __future__ import annotations


class Error(RuntimeError):
    """An error of the engine or of the job, with its subject as fields. Unknown fields are None.

    `code` is "invalid_input", "out_of_memory", "communication", "unsupported", "runtime" or "no_progress".
    """

    def __init__(self, message: str, *, code: str = "invalid_input", field: str | None = None,
                 key: str | None = None, value: str | None = None, file: str | None = None,
                 host: str | None = None, rank: int | None = None, action: str | None = None,
                 block: str | None = None, micro_batch: int | None = None, tensor: str | None = None,
                 remedy: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        #: A field of the engine's options, and the job's key for it.
        self.field, self.key, self.value = field, key, value
        self.file, self.host = file, host
        #: The rank at fault, its action, and the block, micro-batch and tensor of the action.
        self.rank, self.action, self.block = rank, action, block
        self.micro_batch, self.tensor = micro_batch, tensor
        #: What to do.
        self.remedy = remedy
