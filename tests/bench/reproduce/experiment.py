"""Experiments as data: one TOML file each, read and checked before anything runs. README.md lists the keys."""
import dataclasses
import re
import tomllib

from expression import ExpressionError, names

MATRIX = "matrix.toml"
NEEDS = ("cores", "text", "pictures", "shapes", "few_shapes", "gpu")
PLOTS = ("bars", "memory", "curve", "waterfall")
PEERS = ("eager", "compiled")


class ExperimentError(ValueError):
    """Names the file and the key."""


@dataclasses.dataclass
class Variant:
    name: str
    title: str
    ranks: int = 1
    set: dict = dataclasses.field(default_factory=dict)
    refused: bool = False  # the run is meant to end with exit code 2, before its first step
    link: str = ""         # each host a network namespace, with a link of this rate, such as "100mbit"
    ranks_per_host: int = 1
    resumes: dict = dataclasses.field(default_factory=dict)  # {of = VARIANT, step = N}: from its checkpoint of the same round
    peer: str = ""         # the same model in PyTorch: "eager" or "compiled"


@dataclasses.dataclass
class Figure:
    name: str
    value: str
    unit: str = ""
    documented: str = ""
    reproduced_if: list = None
    formula: str = ""
    within: float = 0.01
    otherwise: str = ""
    telling: bool = False  # among the figures of the summary


@dataclasses.dataclass
class Plot:
    kind: str
    title: str
    value: str = ""
    unit: str = ""
    variants: list = dataclasses.field(default_factory=list)  # of a waterfall, in order


@dataclasses.dataclass
class Experiment:
    name: str
    title: str
    documented: str
    source: str
    device: str
    refuted_by: str
    job: dict
    variants: list
    figures: list
    plots: list
    order: int = 100
    runs: bool = True    # False: the plan says all, nothing is trained
    engines: bool = False  # the calls of a step are timed separately, nothing is trained
    seeds: bool = False  # each round has a seed of its own
    rounds: dict = dataclasses.field(default_factory=lambda: {"quick": 5, "full": 11})
    full: dict = dataclasses.field(default_factory=dict)  # keys of the job with --full
    dry: dict = dataclasses.field(default_factory=dict)   # and with --dry-run
    constants: dict = dataclasses.field(default_factory=dict)
    needs: dict = dataclasses.field(default_factory=dict)  # keys: NEEDS
    cannot: str = ""     # why it cannot be run yet; what would be needed


def flat(table, prefix=""):
    """{"model": {"layers": 2}} -> {"model.layers": 2}. Dotted keys may be given as they are."""
    result = {}
    for key, value in table.items():
        if isinstance(value, dict):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = value
    return result


_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table", list: "a list"}


def _kinds_of(field):
    return (int, float) if field.type is float else (field.type,) if field.type in _WORDS else ()


def _make(kind, table, where):
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key in table:
        if key not in fields:
            raise ExperimentError(f"{where}: unknown key '{key}'; known: {', '.join(fields)}")
    for key, value in table.items():
        kinds = _kinds_of(fields[key])
        if kinds and (not isinstance(value, kinds) or isinstance(value, bool) != (kinds == (bool,))):
            raise ExperimentError(f"{where}: {key} = {value!r} wants {' or '.join(_WORDS[one] for one in kinds)}")
    required = [name for name, field in fields.items()
                if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING]
    missing = [name for name in required if name not in table]
    if missing:
        raise ExperimentError(f"{where}: {', '.join(missing)} missing")
    return kind(**table)


def _check_names(experiment, text, where):
    try:
        used = names(text)
    except ExpressionError as error:
        raise ExperimentError(f"{where}: {error}") from None
    known = {variant.name for variant in experiment.variants}
    for name in used:
        if name not in experiment.constants and name.split(".")[0] not in known:
            raise ExperimentError(f"{where}: '{name}' is neither a constant nor of a variant ({', '.join(sorted(known))})")


def _check_variant(variant, known, where):
    if not re.fullmatch(r"[a-z0-9_]+", variant.name):
        raise ExperimentError(f"{where}: names of variants are made of a to z, 0 to 9 and _, as they name folders")
    if variant.peer and variant.peer not in PEERS:
        raise ExperimentError(f"{where}: peer '{variant.peer}'; known: {', '.join(PEERS)}")
    if variant.resumes and (set(variant.resumes) != {"of", "step"} or variant.resumes["of"] not in known - {variant.name}):
        raise ExperimentError(f"{where}: resumes = {{ of = VARIANT, step = N }}, of another variant")
    if variant.ranks_per_host < 1 or variant.ranks % variant.ranks_per_host:
        raise ExperimentError(f"{where}: {variant.ranks} ranks are not hosts of {variant.ranks_per_host}")


def read_experiment(path):
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ExperimentError(f"{path}: {error}") from None
    for name, body in table.get("variants", {}).items():
        if not isinstance(body, dict) or not isinstance(body.get("set", {}), dict):
            raise ExperimentError(f"{path}: variants.{name}: wants a table, and a table of keys as its `set`")
    variants = [_make(Variant, {"name": name, "title": name} | body | {"set": flat(body.get("set", {}))},
                      f"{path}: variants.{name}") for name, body in table.pop("variants", {}).items()]
    figures = [_make(Figure, body, f"{path}: figure {number}") for number, body in enumerate(table.pop("figures", []), 1)]
    plots = [_make(Plot, body, f"{path}: plot {number}") for number, body in enumerate(table.pop("plots", []), 1)]
    table |= {"name": path.stem, "variants": variants, "figures": figures, "plots": plots,
              "job": flat(table.get("job", {})), "full": flat(table.get("full", {})), "dry": flat(table.get("dry", {}))}
    experiment = _make(Experiment, table, str(path))
    if experiment.cannot:
        return experiment
    for size in ("quick", "full"):
        if not isinstance(experiment.rounds.get(size), int) or experiment.rounds[size] < 1:
            raise ExperimentError(f"{path}: rounds = {{ quick = N, full = N }}, each 1 or more")
    for figure in figures:
        if figure.reproduced_if and [isinstance(one, (int, float)) for one in figure.reproduced_if] != [True, True]:
            raise ExperimentError(f"{path}: figure '{figure.name}': reproduced_if = [low, high], two numbers")
    if not isinstance(experiment.needs.get("cores", 1), int):
        raise ExperimentError(f"{path}: needs.cores = {experiment.needs['cores']!r} wants a whole number")
    unknown = [need for need in experiment.needs if need not in NEEDS]
    if unknown:
        raise ExperimentError(f"{path}: needs {', '.join(unknown)}; known: {', '.join(NEEDS)}")
    if not variants or not figures:
        raise ExperimentError(f"{path}: an experiment needs variants and figures, or 'cannot' with the reason")
    for variant in variants:
        _check_variant(variant, {one.name for one in variants}, f"{path}: variants.{variant.name}")
    for figure in figures:
        where = f"{path}: figure '{figure.name}'"
        _check_names(experiment, figure.value, where)
        if figure.formula:
            _check_names(experiment, figure.formula, where)
        if bool(figure.formula) == bool(figure.reproduced_if):
            raise ExperimentError(f"{where}: give reproduced_if = [low, high] or a formula, and not both")
    twice = {figure.name for figure in figures if [one.name for one in figures].count(figure.name) > 1}
    if twice:
        raise ExperimentError(f"{path}: two figures are called '{min(twice)}'")
    for plot in plots:
        if plot.kind not in PLOTS:
            raise ExperimentError(f"{path}: plot kind '{plot.kind}'; known: {', '.join(PLOTS)}")
        if plot.kind == "waterfall" and not set(plot.variants) <= {variant.name for variant in variants}:
            raise ExperimentError(f"{path}: plot '{plot.title}': variants = [...] names those of the experiment, in order")
    return experiment


def read_experiments(folder):
    """In the order of their key `order`, then by name. matrix.toml is no experiment."""
    files = [path for path in sorted(folder.glob("*.toml")) if path.name != MATRIX]
    return sorted((read_experiment(path) for path in files), key=lambda experiment: (experiment.order, experiment.name))
