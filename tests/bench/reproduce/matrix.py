"""Every combination of a few choices in five dimensions, one short run each: a long table (CSV) and heat maps. A cell that
does not fit into memory, by the plan's exact prediction, says so and is not run."""
import csv
import dataclasses
import itertools
import tomllib

from experiment import ExperimentError, Variant, flat
from job_runs import RunFailed

DIMENSIONS = ("model", "batch", "size", "optimizer", "precision")
COLUMNS = (*DIMENSIONS, "outcome", "step_ms", "samples_per_s", "peak_bytes", "predicted_bytes", "loss")


@dataclasses.dataclass
class Choice:
    name: str
    set: dict


@dataclasses.dataclass
class Matrix:
    name: str
    job: dict
    dimensions: dict  # name -> {"models": [...]} of choices
    full: dict
    variants: tuple = ()


def read_matrix(path):
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ExperimentError(f"{path}: {error}") from None
    unknown = [key for key in table if key not in ("job", "full", *DIMENSIONS)]
    if unknown or any(name not in table for name in DIMENSIONS):
        raise ExperimentError(f"{path}: its tables are job, full, {', '.join(DIMENSIONS)}; unknown: {unknown}")
    dimensions = {name: [Choice(choice, flat(body)) for choice, body in table[name].items()] for name in DIMENSIONS}
    return Matrix(path.stem, flat(table.get("job", {})), dimensions, flat(table.get("full", {})))


def cells(matrix):
    """Combinations in order; a size is of one model where its name begins with the model's: "gpt 64"."""
    models = [choice.name for choice in matrix.dimensions["model"]]
    for combination in itertools.product(*matrix.dimensions.values()):
        model, size = combination[0].name, combination[2].name.split(" ")[0]
        if size not in models or size == model:
            yield combination


def run_cell(matrix, combination, runner, how):
    """A row of the table."""
    names = dict(zip(DIMENSIONS, (choice.name for choice in combination)))
    job = {"parallel.threads": how.cores} | matrix.job | (matrix.full if how.full else {})
    job |= {"parallel.device": "cuda"} if how.gpu else {}
    for choice in combination:
        job |= choice.set
    variant = Variant(name="-".join(names.values()).replace(" ", "_"), title="")
    try:
        plan = runner.plan(matrix, variant, job)
        row = names | {"predicted_bytes": plan["numbers"]["peak_bytes"]}
        if plan["exit_code"] != 0:
            return row | {"outcome": "does not fit"}
        run = runner.train(matrix, variant, job, 0)["numbers"]
    except RunFailed as error:
        return names | {"outcome": f"failed: {error}"}
    return row | {"outcome": "ran", "step_ms": run["step_ms"], "peak_bytes": run["peak_bytes"], "loss": run["loss"],
                  "samples_per_s": 1000 * job["train.global_batch"] / run["step_ms"]}


def run_matrix(matrix, runner, how, progress):
    if how.gpu and how.no_cuda:
        return [dict(zip(DIMENSIONS, (choice.name for choice in combination))) | {"outcome": how.no_cuda}
                for combination in cells(matrix)]
    rows = []
    for combination in cells(matrix):
        progress("matrix: " + ", ".join(choice.name for choice in combination))
        rows.append(run_cell(matrix, combination, runner, how))
    return rows


def write_csv(rows, path):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)


def heat_map(rows, key):
    """([row names], [column names], {(row, column): number or None}): model, size and batch down, the rest across."""
    down = list(dict.fromkeys((row["model"], row["size"], row["batch"]) for row in rows))
    across = list(dict.fromkeys((row["optimizer"], row["precision"]) for row in rows))
    found = {((row["model"], row["size"], row["batch"]), (row["optimizer"], row["precision"])): row.get(key) for row in rows}
    # A size is named with its model where it belongs to it.
    titles = [f"{size if size.startswith(model) else f'{model}, {size}'}, {batch}" for model, size, batch in down]
    return titles, [", ".join(name) for name in across], {(i, j): found.get((d, a)) for i, d in enumerate(down)
                                                           for j, a in enumerate(across)}


