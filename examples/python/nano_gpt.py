"""nanoGPT's recipe on bytes: a GPT on the sources of Python's module json, with a sample of what it writes.

Run:     build/python/bin/python examples/python/nano_gpt.py
Expect:  the loss falls from about 5.6 to below 3 in 60 steps. Seconds. For text that resembles code, train 2000 steps.
"""

import pathlib
import subprocess
import sys
import sysconfig

import numpy as np
import trireme

JOB = """
model = {name = "gpt", layers = 4, hidden = 128, heads = 4, seq_len = 64, vocab = 256}
data = {kind = "tokens", train = "out/json"}
train = {steps = 60, global_batch = 16, micro_batch = 8}
optimizer = {name = "adamw", lr = 1e-3, betas = [0.9, 0.99], weight_decay = 0.1, warmup_steps = 10, grad_clip = 1.0}
parallel = {threads = 1, oversubscribe = true}
"""

sources = pathlib.Path(sysconfig.get_paths()["stdlib"]) / "json"
if not pathlib.Path("out/json").exists():
    subprocess.run(["trireme", "data", "text", str(sources), "--out", "out/json"], check=True)
with trireme.Session(trireme.Job.from_toml(JOB)) as session:
    losses = []
    for record in session.train("out/nano_gpt"):
        print(record["step"], record["loss"])
        losses.append(record["loss"])
    written = session.generate(list(b"def "), 100, temperature=0.8, top_k=40, seed=1)
    print(bytes(written.astype(np.uint8)).decode(errors="replace"))
sys.exit(0 if losses[-1] < 3 < 5 < losses[0] else 1)
