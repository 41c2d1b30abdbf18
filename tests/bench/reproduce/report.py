"""report.html, self-contained, and report.md from results.json."""
import html
import json
import shlex

from matrix import DIMENSIONS, heat_map
from measure import DIFFERS, NOT_RUN, REPRODUCED, UNDECIDED, WITHIN_NOISE

MARKS = {REPRODUCED: "yes", WITHIN_NOISE: "near", UNDECIDED: "near", DIFFERS: "no", NOT_RUN: "none"}
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
h1,h2{line-height:1.2} h2{margin-top:2.5rem;border-top:1px solid #bbb;padding-top:1rem}
.wide{overflow-x:auto} table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}
th.n,td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.v{padding:.1rem .5rem;border-radius:.3rem;white-space:nowrap;display:inline-block;border:1px solid}
.yes{background:#e3f1fa;border-color:#0072B2}.near{background:#fdf3dc;border-color:#b77f00}
.no{background:#fbe6da;border-color:#D55E00;font-weight:bold}.none{background:#eee;border-color:#888}
code{font-size:.85rem} pre{overflow-x:auto;background:#f5f5f5;padding:.6rem;font-size:.8rem}
svg{max-width:100%;height:auto} figure{margin:1rem 0} figcaption{font-size:.9rem;color:#444}
@media(max-width:40rem){body{margin:1rem auto}.v{white-space:normal}th.n,td.n{white-space:normal}
.wide table,.wide tbody,.wide tr,.wide td{display:block}.wide tr:first-child{display:none}.wide tr{border-bottom:2px solid #bbb;padding:.4rem 0}
.wide td,.wide td.n{text-align:left;border:0;padding:.1rem 0}.wide td:first-child{font-weight:bold}
.wide td[data-h]:not(:first-child)::before{content:attr(data-h) ": ";color:#555}}
@media print{body{margin:0;max-width:none;font-size:11pt}.wide{overflow:visible}.v{white-space:normal}
h2,p{break-after:avoid}figure,tr{break-inside:avoid}pre{white-space:pre-wrap;overflow-wrap:anywhere}th,td{padding:.15rem .3rem}}
"""


def number(value, unit=""):
    if unit == "bytes" or (abs(value) >= 10000 and value == int(value)):
        text = f"{value:,.0f}"
    else:
        text = f"{value:.5g}"
    return f"{text} {unit}".strip()


def here(figure):
    if "value" not in figure:
        return "-"
    return number(figure["value"], figure["unit"]) + (f", {figure['basis']}" if figure.get("basis") else "")


def interval(figure):
    if "value" not in figure:
        return "-"
    if figure["low"] == figure["high"]:
        return "exact"
    return f"{number(figure['low'])} to {number(figure['high'])}"


def expected(figure):
    if "value" not in figure:
        return figure["documented"]
    low, high = figure["expected"]
    if figure["formula"]:
        return f"{number((low + high) / 2)} = {figure['formula']}"
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def verdict_of(result):
    """The worst of its figures that are decided. Noise belongs to a figure: count_of() counts the undecided ones."""
    if result["reason"]:
        return NOT_RUN
    verdicts = [figure["verdict"] for figure in result["figures"]]
    verdicts = [verdict for verdict in verdicts if verdict not in (UNDECIDED, NOT_RUN)] or verdicts
    return next(verdict for verdict in (DIFFERS, UNDECIDED, WITHIN_NOISE, REPRODUCED, NOT_RUN) if verdict in verdicts)


def count_of(result):
    """How many of its figures were reproduced, in words; nothing where there are none."""
    counts = [(sum(figure["verdict"] == verdict for figure in result["figures"]), words)
              for verdict, words in ((REPRODUCED, "reproduced"), (WITHIN_NOISE, "within the noise"), (UNDECIDED, UNDECIDED),
                                     (DIFFERS, "different"), (NOT_RUN, "not run"))]
    return ", ".join(f"{count} {words}" for count, words in counts if count)


def machine_line(results):
    facts = results["machine"]
    gpu = f", {facts['gpu']}" if facts["gpu"] else ", no GPU"
    torch = f", PyTorch {facts['pytorch']}" if facts.get("pytorch") else ""
    return (f"{facts['processor']}, {facts['cores']} cores, {facts['memory_bytes'] / 2 ** 30:.0f} GiB{gpu}, load {facts['load']:g}; "
            f"build {facts['build']}{torch}")


def memory_rows(results):
    """(experiment, variant, predicted, measured), without the workspaces of libraries, one for each variant that ran: of
    its rounds, one in which they differ, where there is one."""
    rows = {}
    for result in results["experiments"]:
        for one in result["memory"]:
            name, sizes = (result["name"], one["variant"]), (one["predicted"], one["measured"])
            if name not in rows or sizes[0] != sizes[1]:
                rows[name] = sizes
    for row in results["matrix"]:
        if row["outcome"] == "ran":
            rows["matrix", ", ".join(row[name] for name in DIMENSIONS)] = (row["predicted_bytes"], row["peak_bytes"])
    return [(*name, *sizes) for name, sizes in rows.items()]


def _curves(out):
    def read(folder, key):
        steps = [json.loads(line) for line in (out / folder / "out" / "metrics.jsonl").read_text().splitlines()]
        steps = [step for step in steps if key in step]
        return [step["step"] for step in steps], [step[key] for step in steps]

    return read


def _mark(verdict):
    return f'<span class="v {MARKS[verdict]}">{verdict}</span>'


def _figure_rows(result):
    rows = []
    for figure in result["figures"]:
        rows.append(f"<tr><td>{html.escape(figure['name'])}<td class=n data-h=documented>{html.escape(figure['documented'] or '-')}"
                    f"<td class=n data-h=here>{here(figure)}<td class=n data-h='95 % interval'>{interval(figure)}"
                    f"<td data-h='counts as reproduced'>{html.escape(expected(figure))}<td>{_mark(figure['verdict'])} {html.escape(figure['because'])}")
    return "".join(rows)


def _section(result, experiment, out):
    import plots  # loads matplotlib, which verdicts do not need
    parts = [f"<section><h2 id={result['name']}>{html.escape(result['title'])}</h2><p>{html.escape(result['documented'])} "
             f"<small>Source: {html.escape(result['source'])}. Device: {html.escape(result['device'])}.</small></p>"]
    if result["reason"]:
        return parts[0] + f"<p>{_mark(NOT_RUN)} {html.escape(result['reason'])}</p></section>"
    parts.append("<div class=wide><table><tr><th>figure<th class=n>documented<th class=n>here<th class=n>95 % interval<th>counts as reproduced<th>verdict"
                 f"{_figure_rows(result)}</table></div><p><small>Refuted by: {html.escape(result['refuted_by'])}.</small></p>")
    for plot in experiment.plots:
        parts.append(f"<figure>{plots.draw(plot, result['variants'], _curves(out))}"
                     f"<figcaption>{html.escape(plot.title)}</figcaption></figure>")
    parts.append(f"<details><summary>How each figure was computed, and the commands</summary><pre>{html.escape(_trace(result, out))}"
                 "</pre></details></section>")
    return "".join(parts)


def _trace(result, out):
    """From figures to the numbers of runs, and from runs to their commands and files."""
    lines = [f"{figure['name']} = {figure['expression']}" for figure in result["figures"]]
    lines += ["", "The numbers are medians over steps, from out/metrics.jsonl, out/summary.json and plan.out in these folders:"]
    for variant in result["variants"]:
        for one in variant["rounds"]:
            load = f"  # load {one['load']:g}" if "load" in one else ""
            lines.append(f"cd {shlex.quote(str(out / one['folder']))} && {one['command']}{load}")
    return "\n".join(lines)


def _memory_table(results):
    rows = memory_rows(results)
    equal = sum(predicted == measured for *_, predicted, measured in rows)
    lines = "".join(f"<tr><td>{name}<td>{variant}<td class=n data-h=predicted>{predicted:,}<td class=n data-h=measured>{measured:,}"
                    f"<td class=n data-h=difference>{measured - predicted:+,}"
                    for name, variant, predicted, measured in rows)
    return (f"<section><h2 id=prediction>Predicted and measured memory</h2><p>Of {len(rows)} jobs that ran, {equal} needed at their "
            "peak the bytes that <code>trireme plan</code> predicted.</p><div class=wide><table><tr><th>experiment<th>variant"
            f"<th class=n>predicted bytes<th class=n>measured bytes<th class=n>difference{lines}</table></div></section>")


def _matrix_section(rows):
    import plots  # loads matplotlib, which verdicts do not need
    if not rows:
        return ""
    for row in rows:
        row["peak_mib"] = row["peak_bytes"] / plots.MIB if row.get("peak_bytes") else None
    missing = "".join(f"<li>{html.escape(', '.join(row[name] for name in DIMENSIONS))}: "
                      f"{html.escape(row['outcome'])}" for row in rows if row["outcome"] != "ran")
    return (f"<section><h2 id=matrix>Matrix of {len(rows)} short runs</h2><p>All cells: matrix.csv. Colours compare the cells "
            "of a row.</p>" + "".join(f"<figure>{plots.heat(*heat_map(rows, key), title)}</figure>" for key, title in
                                      (("step_ms", "milliseconds a step"), ("peak_mib", "peak memory, MiB")))
            + (f"<ul>{missing}</ul>" if missing else "") + "</section>")


def write_html(results, experiments, out):
    summary = "".join(f"<tr><td><a href=#{result['name']}>{html.escape(result['title'])}</a><td>{_mark(verdict_of(result))}"
                      f"<td class=n>{count_of(result)}" for result in results["experiments"])
    sections = "".join(_section(result, experiment, out) for result, experiment in zip(results["experiments"], experiments))
    text = (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>Trireme: documented gains, repeated</title><style>{STYLE}</style><h1>Documented gains, repeated</h1>"
            f"<p>{html.escape(machine_line(results))}. {'Full' if results['full'] else 'Quick'} run. Times were measured in turns; "
            f"figures of a plan say \"predicted\" or \"simulated\"; intervals are bootstrapped over rounds.</p><table>{summary}</table>{sections}{_matrix_section(results['matrix'])}{_memory_table(results)}"
            "<script>addEventListener('beforeprint',()=>document.querySelectorAll('details').forEach(one=>one.open=true))</script></html>\n")
    (out / "report.html").write_text(text)


def write_markdown(results, out):
    lines = ["# Documented gains, repeated", "", machine_line(results) + ".", "",
             "| experiment | figure | documented | here | 95 % interval | verdict |", "| --- | --- | --- | --- | --- | --- |"]
    for result in results["experiments"]:
        if result["reason"]:
            lines.append(f"| {result['title']} | | | | | {NOT_RUN}: {result['reason']} |")
        for figure in result["figures"]:
            because = f", {figure['because']}" if figure["because"] else ""
            lines.append(f"| {result['title']} | {figure['name']} | {figure['documented'] or expected(figure)} | "
                         f"{here(figure)} | {interval(figure)} | {figure['verdict']}{because} |")
    rows = memory_rows(results)
    equal = sum(predicted == measured for *_, predicted, measured in rows)
    lines += ["", f"Memory: of {len(rows)} variants that ran, {equal} needed at their peak the bytes that were predicted, in every round."]
    (out / "report.md").write_text("\n".join(lines) + "\n")


def write_report(results, experiments, out):
    write_html(results, experiments, out)
    write_markdown(results, out)
