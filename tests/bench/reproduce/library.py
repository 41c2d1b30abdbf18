"""Results kept by machine in tests/bench/results, side by side, and the pages that show them."""
import json
import re
import statistics
import textwrap
from pathlib import Path

from compare import COSTS
from experiment import ExperimentError
from measure import NOT_RUN, REPRODUCED, WITHIN_NOISE

RESULTS = Path("tests/bench/results")
PAGE, PICTURE = RESULTS / "reproduced.md", RESULTS / "reproduced.svg"
DIGITS, NUM_TELLING, MIB, WIDTH = 12, 6, 1 << 20, 118
FACTS = ("processor", "cores", "memory_bytes", "gpu", "gpus", "build", "load")
OF_A_FIGURE = ("name", "unit", "documented", "value", "low", "high", "verdict", "because", "basis", "telling")


def machine_name(facts):
    """"amd-epyc-2-cores": the folder of a machine's results."""
    words = f"{facts['processor']} {facts['cores']} cores {facts['gpu'] or ''}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _short(value):
    """Numbers of bytes stay what they are: later runs are compared with them."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else float(f"{value:.{DIGITS}g}")


def _part(table, keys):
    return {key: _short(table[key]) for key in keys if table.get(key) not in (None, "", False)}


def _kept_experiment(experiment):
    variants = [{"name": variant["name"], "title": variant["title"], "peer": bool(variant.get("peer")), "rounds":
                 [{"numbers": _part(one["numbers"], COSTS)} for one in variant["rounds"]]}
                for variant in experiment["variants"]]
    return {"name": experiment["name"], "title": experiment["title"], "reason": experiment["reason"],
            "figures": [_part(figure, OF_A_FIGURE) for figure in experiment["figures"]], "variants": variants}


def waterfall(results, experiments):
    """The first plot of that kind as numbers; None where none was measured."""
    for result, experiment in zip(results["experiments"], experiments):
        for plot in experiment.plots:
            if plot.kind == "waterfall" and result["variants"] and not result["reason"]:
                measured = {variant["name"]: variant for variant in result["variants"]}
                scale = MIB if plot.unit == "MiB" else 1
                bars = [[measured[name]["title"], statistics.median(one["numbers"][plot.value] for one in
                                                                    measured[name]["rounds"]) / scale]
                        for name in plot.variants]
                return {"title": plot.title, "unit": plot.unit, "bars": bars}
    return None


def small(results):
    """What later runs are compared with, and pages are made of."""
    equal = [one["predicted"] == one["measured"] for experiment in results["experiments"] for one in experiment["memory"]]
    return {"machine": {key: results["machine"][key] for key in FACTS}, "full": results["full"],
            "memory_runs": len(equal), "memory_as_predicted": sum(equal), "picture": results["picture"],
            "experiments": [_kept_experiment(experiment) for experiment in results["experiments"]]}


def keep(results, root):
    """Returns the file. A line an experiment's variant or figure, for readable differences."""
    if results.get("only"):
        raise ExperimentError("--keep wants all experiments of a run: these are of --only " + " ".join(results["only"]))
    path = root / RESULTS / machine_name(results["machine"]) / "reproduce.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(small(results), indent=1)
    # Innermost tables and lists on one line.
    text = re.sub(r"[\[{][^\[\]{}]*[\]}]", lambda found: re.sub(r"\s*\n\s*", " ", found.group()), text)
    path.write_text(text + "\n")
    return path


def read_results(path):
    """A results.json, or what was kept of one."""
    try:
        results = json.loads(Path(path).read_text())
        for experiment in results["experiments"]:
            for figure in experiment["figures"]:
                figure["name"]
            for variant in experiment["variants"]:
                variant["name"], [one["numbers"] for one in variant["rounds"]]
        if not set(results["machine"]) >= set(FACTS):
            raise KeyError("machine")
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExperimentError(f"{path} is no results.json of this tool: {error!r}") from None
    return results


def kept_files(root):
    return sorted((root / RESULTS).glob("*/reproduce.json"))


def machine_title(facts):
    return f"{facts['processor']}, {facts['cores']} cores" + (f", {facts['gpu']}" if facts.get("gpu") else "")


def _number(value):
    return f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"


def _cell(figure):
    if "value" not in figure:
        return f"{NOT_RUN}: {figure['because']}"
    around = "" if figure["low"] == figure["high"] else f" ({_number(figure['low'])} to {_number(figure['high'])})"
    unit = f" {figure['unit']}" if figure.get("unit") else ""
    basis = f", {figure['basis']}" if figure.get("basis") else ""
    return f"{_number(figure['value'])}{unit}{around}{basis}"


def _by_figure(kept):
    """({(experiment, figure): None} in order, {(row, machine's column): text}, {row: what is documented})."""
    rows, cells, documented = {}, {}, {}
    for column, results in enumerate(kept):
        for experiment in results["experiments"]:
            for figure in experiment["figures"] or [{"name": "", "because": experiment["reason"]}]:
                row = experiment["title"], figure["name"] or "all"
                rows[row] = None
                documented[row] = documented.get(row) or figure.get("documented", "")
                because = f", {figure['because']}" if figure.get("because") else ""
                verdict = f", {figure['verdict']}{because}" if "value" in figure else ""
                cells[row, column] = _cell(figure) + verdict
    return rows, cells, documented


def _page_text(kept):
    """Figures as lists, in lines that fit an editor."""
    rows, cells, documented = _by_figure(kept)
    lines, section = [], None
    for experiment, figure in rows:
        if experiment != section:
            lines += ["", f"## {experiment}", ""]
            section = experiment
        said = documented[experiment, figure]
        lines += textwrap.wrap(f"- {figure}" + (f"; documented: {said}" if said else ""), WIDTH, subsequent_indent="  ")
        for column, results in enumerate(kept):
            text = cells.get(((experiment, figure), column))
            if text:
                lines += textwrap.wrap(f"{machine_title(results['machine'])}: {text}", WIDTH, initial_indent="  - ",
                                       subsequent_indent="    ")
    return "\n".join(lines)


def machines_text(paths):
    """A Markdown table of figures by machine."""
    kept = [read_results(path) for path in paths]
    rows, cells, documented = _by_figure(kept)
    titles = [machine_title(results["machine"]) for results in kept]
    lines = ["| experiment | figure | documented | " + " | ".join(titles) + " |", "| --- " * (3 + len(kept)) + "|"]
    lines += ["| " + " | ".join([*row, documented[row], *(cells.get((row, column), "") for column in range(len(kept)))]) + " |"
              for row in rows]
    return "\n".join(lines)


def _telling(results):
    """The figures of the summary: (experiment's title, figure)."""
    return [(experiment["title"], figure) for experiment in results["experiments"] for figure in experiment["figures"]
            if figure.get("telling") and "value" in figure][:NUM_TELLING]


def summary_text(results):
    """The most telling figures of one machine, with a picture."""
    figures = [figure for experiment in results["experiments"] for figure in experiment["figures"] if "value" in figure]
    near = sum(figure["verdict"] == WITHIN_NOISE for figure in figures)
    good = sum(figure["verdict"] == REPRODUCED for figure in figures)
    lines = [f"{machine_title(results['machine'])} reproduced {good} of {len(figures)} figures and {near} more within the noise.",
             f"Memory was as predicted, to the byte, in {results['memory_as_predicted']} of {results['memory_runs']} runs.", "",
             "| experiment | figure | documented | here |", "| --- | --- | --- | --- |"]
    lines += [f"| {title.split(':')[0]} | {figure['name']} | {figure.get('documented', '')} | {_cell(figure)} |"
              for title, figure in _telling(results)]
    return "\n".join([*lines, "", f"![{results['picture']['title']}]({PICTURE.name})"]) + "\n"


def picture(data):
    """Bars with their values, as SVG that needs nothing else."""
    most, step, left, width = max(value for _, value in data["bars"]), 26, 220, 350
    parts = [f'<text x="0" y="14" font-weight="bold">{data["title"]}, {data["unit"]}</text>']
    for row, (title, value) in enumerate(data["bars"]):
        y = 24 + step * row
        length = round(width * value / most, 1)
        parts += [f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{title}</text>',
                  f'<rect x="{left}" y="{y}" width="{length}" height="{step - 6}" fill="#0072B2"/>',
                  f'<text x="{left + length + 6}" y="{y + 14}">{_number(value)}</text>']
    height = 30 + step * len(data["bars"])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" width="640" font-family="sans-serif" '
            f'font-size="13"><rect width="640" height="{height}" fill="#ffffff"/>' + "\n".join(parts) + "</svg>\n")


def pages(root):
    """{path: text}."""
    files = kept_files(root)
    kept = [json.loads(path.read_text()) for path in files]
    if not kept:
        raise ExperimentError(f"no results in {root / RESULTS}: examples/reproduce.sh --keep")
    shown = next((results for results in kept if results["machine"]["gpu"]), kept[0])
    machines = "\n".join(f"- {machine_title(results['machine'])}, load {results['machine']['load']:g}: [{path.parent.name}]({path.parent.name}/reproduce.json)"
                         for path, results in zip(files, kept))
    page = ("# Documented gains, by machine\n\n`examples/reproduce.sh --keep` measured them; `--pages` wrote this page. In "
            "brackets: 95 % intervals,\nbootstrapped over rounds. Load: processes that wanted a core, those of the run included.\n\n" + machines + "\n\n" +
            summary_text(shown) + _page_text(kept) + "\n")
    return {root / PAGE: page, root / PICTURE: picture(shown["picture"])}


def write_pages(root):
    for path, text in pages(root).items():
        path.write_text(text)


def pages_differ(root):
    return [path.relative_to(root) for path, text in pages(root).items() if not path.exists() or path.read_text() != text]
