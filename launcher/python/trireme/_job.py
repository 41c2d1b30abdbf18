"""A job: the configuration of a training, as in a job file."""

from __future__ import annotations

import json
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

from . import _core
from ._errors import Error


def _toml_value(value: object) -> str:
    """A value of an override, as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(one) for one in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml_value(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"a key of a job takes bool, int, float, str, list or dict, not {type(value).__name__}")


class Job:
    """A checked job. Make one with from_toml(); it does not change afterwards."""

    def __init__(self, core: _core.Job, name: str) -> None:
        self._core = core
        self._tables: dict[str, Any] = tomllib.loads(core.to_toml())
        #: The name of the job's file without its suffix; "job" for a text.
        self.name = name

    @classmethod
    def from_toml(cls, path_or_text: str | pathlib.Path, overrides: Mapping[str, object] | None = None,
                  **keys: object) -> Job:
        """Reads a job file, or the text of one, which has a newline or an equals sign.

        Keys are replaced by full name, or by section:

            Job.from_toml("gpt.toml", {"train.steps": 100}, parallel={"zero": 2})
            Job.from_toml("gpt.toml", **{"train.steps": 100})

        Raises Error (code "invalid_input") with file, line, column and key.
        """
        text = str(path_or_text)
        source, name = "<text>", "job"
        if isinstance(path_or_text, pathlib.Path) or not ("\n" in text or "=" in text):
            source, name = text, pathlib.Path(text).stem
            try:
                text = pathlib.Path(text).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise Error(f"{source}: cannot be read: {error}", file=source) from error
        changes = dict(overrides or {})
        for name_of_key, given in keys.items():
            if isinstance(given, Mapping) and "." not in name_of_key:
                changes.update({f"{name_of_key}.{key}": value for key, value in given.items()})
            else:
                changes[name_of_key] = given
        texts = [f"{key}={_toml_value(value)}" for key, value in changes.items()]
        return cls(_core.Job.read(text, source, texts), name)

    def __getitem__(self, key: str) -> Any:
        """The value of a key by its full name, "train.steps". Raises KeyError for a key without effect here."""
        table: Any = self._tables
        for part in key.split("."):
            if not isinstance(table, dict) or part not in table:
                raise KeyError(f"{key}: the job has no such key, or it has no effect with this model")
            table = table[part]
        return table

    def to_toml(self) -> str:
        """The resolved job: every key that has an effect, with its value."""
        return self._core.to_toml()

    def to_dict(self) -> dict[str, Any]:
        """The same by section."""
        return tomllib.loads(self.to_toml())

    def __repr__(self) -> str:
        return f"<trireme.Job {self.name}: {self['model.name']}, {self['train.steps']} steps>"


def core_of(job: Job) -> _core.Job:
    """The engine's job. Raises TypeError for another type, such as the path of a job file."""
    if not isinstance(job, Job):
        raise TypeError(f"job is of type {type(job).__name__}: pass a Job, as Job.from_toml() makes one")
    return job._core
