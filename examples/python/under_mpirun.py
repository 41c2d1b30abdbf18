"""Ranks as processes of mpirun: own samples on any number of ranks, with the bits of one.

Run:     mpirun -np 2 build/python/bin/python examples/python/under_mpirun.py
Expect:  the state's hash, equal for every number of ranks, and a checkpoint in out/mpi. Seconds. Needs mpi4py.
"""

import sys

import numpy as np
import trireme
from mpi4py import MPI

JOB = """
model = {name = "gpt", layers = 2, hidden = 32, heads = 2, seq_len = 16, vocab = 64}
data = {kind = "synthetic"}
train = {steps = 4, global_batch = 8, micro_batch = 2, seed = 3}
optimizer = {name = "adamw", lr = 1e-3}
parallel = {zero = 2, threads = 1, oversubscribe = true}
"""

comm = MPI.COMM_WORLD
with trireme.Session(trireme.Job.from_toml(JOB), comm=comm) as session:
    for step in range(4):
        rows = np.random.default_rng(step).integers(0, 64, (8, 17), dtype=np.int32)  # the same in every process
        record = session.step(rows[:, :-1], rows[:, 1:])
        if comm.rank == 0:
            print(record["step"], record["loss"])
    state = session.state_hash()
    session.save("out/mpi")
if comm.rank == 0:
    print(f"{comm.size} rank(s), state {state}")
sys.exit(0 if set(comm.allgather(state)) == {state} else 1)
