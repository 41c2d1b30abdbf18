"""A loss of one's own: a small GPT learns from the logits of a larger one.

Run:     build/python/bin/python examples/python/distillation.py
Expect:  the teacher learns to count; the student, which sees no targets, follows: it predicts the next number of
         nearly all rows. Seconds.

The loss is the cross-entropy between both models' distributions, at a temperature (Hinton et al. 2015). A loss in
Python receives logits and targets; here the targets name the rows, by which it finds the teacher's logits.
"""

import sys

import numpy as np
import numpy.typing as npt
import trireme

FloatArray = npt.NDArray[np.float32]
TokenArray = npt.NDArray[np.int32]

JOB = """
model = {name = "gpt", layers = 2, hidden = 32, heads = 2, seq_len = 8, vocab = 64}
data = {kind = "synthetic"}
train = {steps = 150, global_batch = 32, micro_batch = 32, seed = 1}
optimizer = {name = "adamw", lr = 3e-3}
parallel = {threads = 1, oversubscribe = true}
"""
ROWS, LENGTH, TEMPERATURE = 32, 8, 2.0


def probabilities(logits: FloatArray) -> FloatArray:
    shifted = np.exp((logits - logits.max(-1, keepdims=True)) / np.float32(TEMPERATURE))
    result: FloatArray = shifted / shifted.sum(-1, keepdims=True)
    return result


def accuracy(session: trireme.Session, inputs: TokenArray, targets: TokenArray) -> float:
    return float((session.logits(inputs)[:, 1:].argmax(-1) == targets[:, 1:]).mean())


# Each row counts with its own stride: 5 8 11 14 ... The second number shows the stride.
generator = np.random.default_rng(2)
start, stride = generator.integers(0, 64, (ROWS, 1)), generator.integers(1, 8, (ROWS, 1))
numbers = ((start + stride * np.arange(LENGTH + 1)) % 64).astype(np.int32)
inputs, targets = numbers[:, :-1].copy(), numbers[:, 1:].copy()

with trireme.Session(trireme.Job.from_toml(JOB, model={"hidden": 64, "heads": 4})) as teacher:
    for _ in range(150):
        teacher.step(inputs, targets, lr=3e-3)
    teacher_logits = teacher.logits(inputs)
    print(f"teacher: {accuracy(teacher, inputs, targets):.1%} of the numbers")

soft = probabilities(teacher_logits)


def distillation(logits: FloatArray, rows: TokenArray) -> tuple[float, FloatArray]:
    wanted = soft[rows[:, 0]]
    found = probabilities(logits)
    loss = -float((wanted * np.log(found + np.float32(1e-9))).sum()) * TEMPERATURE**2
    return loss, (found - wanted) * np.float32(TEMPERATURE)


rows = np.repeat(np.arange(ROWS, dtype=np.int32)[:, None], LENGTH, axis=1)
with trireme.Session(trireme.Job.from_toml(JOB), loss=distillation) as student:
    before = accuracy(student, inputs, targets)
    for _ in range(150):
        student.step(inputs, rows, lr=3e-3)
    after = accuracy(student, inputs, targets)
print(f"student: {before:.1%} before, {after:.1%} after")
sys.exit(0 if before < 0.1 and after > 0.9 else 1)
