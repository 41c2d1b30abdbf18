"""Plots of an experiment as SVG text. Colours: Okabe and Ito's, which the colour-blind tell apart."""
import html
import io
import statistics

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"]
CATEGORIES = ["parameters", "gradients", "optimizer", "activations", "communication", "batch", "host", "data"]
MIB = 1 << 20
STRAY = 2.0  # times the largest median
plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none",
                     "svg.hashsalt": "reproduce", "axes.prop_cycle": matplotlib.cycler(color=COLOURS)})


def _svg(figure):
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg"):]


def _axes(height):
    return plt.subplots(figsize=(6.4, height))


def _first(variant):
    return variant["rounds"][0]["numbers"]


def _bars(plot, variants, _):
    figure, axes = _axes(0.7 + 0.4 * len(variants))
    rows = [[one["numbers"][plot.value] for one in variant["rounds"]] for variant in variants]
    # A round that strays far is named at the edge; it would squash all others.
    limit = STRAY * max(statistics.median(values) for values in rows)
    for row, values in enumerate(rows):
        axes.barh(row, statistics.median(values), color=COLOURS[0], height=0.6)
        inside = [value for value in values if value <= limit or limit <= 0]
        axes.plot(inside, [row] * len(inside), "o", color="#000000", markersize=3, zorder=3)
        if len(inside) < len(values):
            beyond = ", ".join(f"{value:.4g}" for value in sorted(values) if value > limit)
            axes.text(limit, row, f"also {beyond} \u2192", ha="right", va="center")
    axes.set_yticks(range(len(variants)), [variant["title"] for variant in variants])
    axes.invert_yaxis()
    axes.set_xlabel(f"{plot.value.removesuffix('_ms').removesuffix('_per_s').replace('_', ' ')} ({plot.unit}); bars: medians, dots: rounds")
    return figure


def _memory(plot, variants, _):
    figure, axes = _axes(1.1 + 0.4 * len(variants))
    left = [0.0] * len(variants)
    for colour, category in zip(COLOURS, CATEGORIES):
        sizes = [_first(variant).get("memory", _first(variant)["plan"]["memory"]).get(category, 0) / MIB for variant in variants]
        if max(sizes) > 0:
            axes.barh(range(len(variants)), sizes, left=left, color=colour, height=0.6, label=category, edgecolor="white")
            left = [one + size for one, size in zip(left, sizes)]
    axes.set_yticks(range(len(variants)), [variant["title"] for variant in variants])
    axes.invert_yaxis()
    axes.set_xlabel("MiB, each category at its own peak")
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure


def _waterfall(plot, variants, _):
    """From bar to bar: what each step takes away, or adds."""
    figure, axes = _axes(0.9 + 0.4 * len(plot.variants))
    named = {variant["name"]: variant for variant in variants}
    values = [statistics.median(one["numbers"][plot.value] for one in named[name]["rounds"]) / (MIB if plot.unit == "MiB" else 1)
              for name in plot.variants]
    for row, value in enumerate(values):
        before = values[row - 1] if row else value
        axes.barh(row, value, color=COLOURS[0], height=0.6)
        axes.barh(row, before - value, left=value, color=COLOURS[1], height=0.6, hatch="//", edgecolor="white")
        share = f" ({value / values[0]:.0%})" if row else ""
        axes.text(max(before, value), row, f" {value:.3g}{share}", va="center")
    axes.set_yticks(range(len(values)), [named[name]["title"] for name in plot.variants])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.2 * max(values))
    axes.set_xlabel(f"{plot.unit}; hatched: what the step changed")
    return figure


def _curve(plot, variants, curves):
    figure, axes = _axes(3.0)
    # Thick below thin: equal curves are seen all the same.
    for width, variant in zip([5.0, 2.5, 1.0, 0.5], variants):
        axes.plot(*curves(variant["rounds"][0]["folder"], plot.value), linewidth=width, label=variant["title"])
    axes.set_xlabel("step")
    axes.set_ylabel(plot.value.replace("_", " "))
    axes.legend(frameon=False)
    return figure


def heat(rows, columns, cells, title):
    """A table of numbers, coloured by how many times the smallest of its row each is. Empty cells: None."""
    if not any(cells.values()):
        return f"<p>{html.escape(title)}: no cell has a number here.</p>"
    figure, axes = plt.subplots(figsize=(1.6 + 0.9 * len(columns), 0.9 + 0.32 * len(rows)))
    least = [min((cells[i, j] for j in range(len(columns)) if cells[i, j]), default=None) for i in range(len(rows))]
    shades = [[cells[i, j] / least[i] if cells[i, j] else float("nan") for j in range(len(columns))] for i in range(len(rows))]
    axes.imshow(shades, cmap="cividis_r", aspect="auto", vmin=1.0)
    for (i, j), value in cells.items():
        text = f"{value:.3g}" if value else "-"
        dark = value and shades[i][j] > 0.5 * (1 + max(one for row in shades for one in row if one == one))
        axes.text(j, i, text, ha="center", va="center", color="white" if dark else "black")
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_title(title, loc="left", fontsize=9)
    return _svg(figure)


def draw(plot, variants, curves):
    """`curves(folder, key)` gives ([steps], [values]) from a run's metrics. Returns SVG text."""
    ran = [variant for variant in variants if "step_ms" in _first(variant)]
    if plot.kind in ("memory", "curve"):  # PyTorch's runs tell neither
        ran = [variant for variant in ran if not variant["peer"]]
    try:
        return _drawn(plot, ran or variants, curves)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        plt.close("all")
        return f"<p>{html.escape(plot.title)}: not drawn, because of {html.escape(repr(error))} in its value.</p>"


def _drawn(plot, variants, curves):
    draw_kind = {"bars": _bars, "waterfall": _waterfall, "memory": _memory, "curve": _curve}[plot.kind]
    return _svg(draw_kind(plot, variants, curves))
