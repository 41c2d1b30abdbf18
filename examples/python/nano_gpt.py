"""A byte-level GPT in nanoGPT's recipe, on the sources of Python's standard library.

Run:     build/python/bin/python examples/python/nano_gpt.py
Expect:  the loss falls from about 5.6 to below 3; seconds on two cores. For a model that writes, train 2000 steps.
"""

import pathlib
import subprocess
import sys
import sysconfig

import trireme

JOB = """
[model]
name = "gpt"
layers = 4
hidden = 128
heads = 4
seq_len = 64
[data]
kind = "tokens"
train = "out/data"
[train]
steps = 40
global_batch = 16
micro_batch = 8
[optimizer]
name = "adamw"
lr = 1e-3
betas = [0.9, 0.99]
weight_decay = 0.1
schedule = "cosine"
warmup_steps = 10
grad_clip = 1.0
"""

if not pathlib.Path("out/data").exists():
    sources = pathlib.Path(sysconfig.get_paths()["stdlib"]) / "json"
    subprocess.run(["trireme", "data", "text", str(sources), "--out", "out/data"], check=True)
job = trireme.Job.from_toml(JOB)
print(trireme.plan(job))
with trireme.Session(job) as session:
    for record in session.train("out/nano_gpt"):
        if record["step"] % 10 == 0:
            print(record["step"], record["loss"])
loss = trireme.runs("out/nano_gpt")[0].metrics["loss"]
sys.exit(0 if loss[-1] < 3 < 5 < loss[0] else 1)
