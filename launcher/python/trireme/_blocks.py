"""Blocks in C++ from shared libraries."""

from __future__ import annotations

import pathlib

from . import _core


class Blocks:
    """Blocks in C++ of a shared library, from load_blocks(): see Session."""

    def __init__(self, core: _core.Blocks, path: str) -> None:
        self._core = core
        self.path = path

    def __repr__(self) -> str:
        return f"<trireme.Blocks of {self.path}>"


def load_blocks(path: str | pathlib.Path, **options: object) -> Blocks:
    """Loads blocks written in C++ from a shared library, in place of those of a job's model.

    The library calls TRIREME_BLOCKS (runtime/block_library.h), and is built from the same sources as this package.
    `options` are passed to its function as texts. The library stays loaded until the process ends. Raises Error with
    the file if it cannot be loaded, has no blocks, was built from other sources, or has changed since it was loaded.
    """
    texts = {name: str(value) for name, value in options.items()}
    return Blocks(_core.Blocks.load(str(path), texts), str(path))
