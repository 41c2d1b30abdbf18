"""The plan of a job's step: memory of each rank, traffic, and time on a described cluster."""

from __future__ import annotations

import html
import json
from typing import Any

from . import _core
from ._job import Job, core_of


class Plan:
    """What a step of a job needs on some number of ranks. Nothing of the model's size is allocated."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return int(self._content["ranks"])

    @property
    def fits(self) -> bool:
        """True if every rank has enough memory."""
        return bool(self._content["fit"]["fits"])

    def memory(self, rank: int = 0) -> dict[str, int]:
        """Bytes of a rank by category at their peaks, and "total", the peak of the sum, which may be less."""
        for group in self._content["groups"]:
            if rank in group["ranks"]:
                return {**{name: int(size) for name, size in group["memory"].items()},
                        "total": int(group["peak_bytes"])}
        raise IndexError(f"rank {rank} is none of the {self.ranks} ranks of the plan, which count from 0")

    def to_dict(self) -> dict[str, Any]:
        """Everything, as `trireme plan --json` prints it; sizes in bytes."""
        return json.loads(json.dumps(self._content))  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        peak = max(self.memory(rank)["total"] for rank in range(self.ranks))
        return f"<trireme.Plan of {self.ranks} rank(s): {peak / 2**30:.2f} GiB on the largest>"

    def _repr_html_(self) -> str:
        names = list(self.memory(0))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        rows = ""
        for rank in range(self.ranks):
            cells = "".join(f"<td>{size / 2**20:.1f}</td>" for size in self.memory(rank).values())
            rows += f"<tr><td>{rank}</td>{cells}</tr>"
        return f"<table><caption>MiB by rank</caption><tr><th>rank</th>{head}</tr>{rows}</table>"


def plan(job: Job, ranks: int = 1, *, ranks_per_machine: int = 0, cluster: str | None = None,
         device: str = "") -> Plan:
    """Plans, validates and predicts a step of `job` on `ranks` ranks, to the byte.

    `ranks_per_machine`: ranks that share the memory of a machine like this one; 0: all. `cluster`: file of a
    description (`trireme doctor --measure`), on which the step is also timed; `device`: one of its devices.
    Raises Error for a batch that does not divide, and for choices that need measurements.
    """
    return Plan(json.loads(_core.plan_json(core_of(job), ranks, ranks_per_machine, cluster, device)))
