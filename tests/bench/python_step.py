#!/usr/bin/env python3
"""What a step of a session takes beyond the engine's: the call from Python, samples, and results.

    build/python/bin/python tests/bench/python_step.py [--threads 1] [--local 1]

The engine's time is that of its phases, which metrics.jsonl has for every step of a training. A model of one block is
so small that its step takes less than the difference. Prints microseconds: medians of 2000 steps, five times.
"""

import argparse
import statistics
import time

import numpy as np
import trireme

JOB = """
model = {name = "gpt", layers = 1, hidden = 8, heads = 1, seq_len = 8, vocab = 16}
data = {kind = "synthetic"}
train = {steps = 6, global_batch = 4, micro_batch = 1}
optimizer = {name = "sgd", lr = 1e-3}
parallel = {oversubscribe = true}
"""

arguments = argparse.ArgumentParser()
arguments.add_argument("--threads", type=int, default=1)
arguments.add_argument("--local", type=int, default=1)
options = arguments.parse_args()
job = trireme.Job.from_toml(JOB, parallel={"threads": options.threads})
batch = np.zeros((4, 8), np.int32)
with trireme.Session(job, local=options.local) as session:
    for _ in range(500):
        session.step(batch, batch)
    for _ in range(5):
        whole, engine = [], []
        for _ in range(2000):
            start = time.perf_counter()
            session.step(batch, batch)
            whole.append((time.perf_counter() - start) * 1e6)
            engine.append(session._core.engine_us())
        over = [a - b for a, b in zip(whole, engine)]
        print(f"step {statistics.median(whole):.1f} us, engine {statistics.median(engine):.1f}, "
              f"beyond {statistics.median(over):.1f} (p90 {statistics.quantiles(over, n=10)[-1]:.1f})")
