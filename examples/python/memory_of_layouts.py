"""The memory of a rank on ten layouts of one GPT, without running anything.

Run:     build/python/bin/python examples/python/memory_of_layouts.py [FILE.svg]
Expect:  a table in MiB; with FILE and matplotlib, a plot of it. Seconds.
"""

import sys

import trireme

JOB = """
[model]
name = "gpt"
size = "124m"
[data]
kind = "synthetic"
[train]
steps = 10
global_batch = 64
micro_batch = 2
"""
LAYOUTS: dict[str, dict[str, object]] = {
    "data parallel": {},
    "ZeRO-1": {"zero": 1},
    "ZeRO-2": {"zero": 2},
    "ZeRO-3": {"zero": 3},
    "ZeRO-3, recompute": {"zero": 3, "recompute_every": 1},
    "recompute": {"recompute_every": 1},
    "2 stages": {"pipeline": 2},
    "4 stages": {"pipeline": 4},
    "2 stages, ZeRO-1": {"pipeline": 2, "zero": 1},
    "4 stages, recompute": {"pipeline": 4, "recompute_every": 1},
}
SHOWN = ("parameters", "gradients", "optimizer", "activations")

table = {}
for name, layout in LAYOUTS.items():
    plan = trireme.plan(trireme.Job.from_toml(JOB, parallel=layout), ranks=8)
    largest = max((plan.memory(rank) for rank in range(plan.ranks)), key=lambda memory: memory["total"])
    table[name] = {category: largest[category] / 2**20 for category in (*SHOWN, "total")}

print(f"{'8 ranks':22}" + "".join(f"{category:>13}" for category in (*SHOWN, "total")))
for name, memory in table.items():
    print(f"{name:22}" + "".join(f"{size:13.1f}" for size in memory.values()))

if len(sys.argv) > 1:
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    left = [0.0] * len(table)
    for category in SHOWN:
        sizes = [memory[category] for memory in table.values()]
        pyplot.barh(list(table), sizes, left=left, label=category)
        left = [a + b for a, b in zip(left, sizes)]
    pyplot.xlabel("MiB of the largest rank")
    pyplot.legend()
    pyplot.savefig(sys.argv[1], bbox_inches="tight")
sys.exit(0 if table["ZeRO-3"]["total"] < table["data parallel"]["total"] else 1)
