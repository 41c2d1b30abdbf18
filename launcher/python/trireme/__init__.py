"""Trireme in Python: plan, train and read back.

    import trireme

    job = trireme.Job.from_toml("gpt.toml", **{"train.steps": 100})
    print(trireme.plan(job, ranks=2))
    with trireme.Session(job, local=2) as session:
        for record in session.train("out/"):
            print(record["step"], record.get("loss"))
    loss = trireme.runs("out/")[0].metrics["loss"]

Every function checks its arguments and raises trireme.Error with its subject as fields.
"""

from . import _core
from ._blocks import Blocks, load_blocks
from ._data import Dataset
from ._errors import Error
from ._job import Job
from ._plan import Plan, plan
from ._runs import Run, runs
from ._session import Session, Shard

__version__: str = _core.version

__all__ = ["Blocks", "Dataset", "Error", "Job", "Plan", "Run", "Session", "Shard", "load_blocks", "plan", "runs"]
