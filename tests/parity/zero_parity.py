#!/usr/bin/env python3
"""Compares ZeRO stages with PyTorch's ZeroRedundancyOptimizer: two gloo processes against two ranks.

    torch_python.sh zero_parity.py --trace PATH/gpt_trace --case adamw

Runs the trace on two ranks for stages 1 to 3, then the same GPT-2 from the same weights and batches in two PyTorch
processes: each runs its half of the micro-batches, gradients are summed by all-reduce, and each process keeps the
optimizer state of its part of the parameters. Losses of 20 steps must agree. Needs torch and numpy alone.
(FullyShardedDataParallel of PyTorch 1.13 works on GPUs only.)
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional as F

from gpt_parity import Gpt, learning_rate, read_safetensors

RANKS = 2
SEED = "11"  # of the initial parameters
LOSS = 1e-5  # relative, of every step


def flat_groups(config, weights):
    """One group a decay: ZeroRedundancyOptimizer shards whole tensors."""
    matrices = [w for w in weights.values() if w.dim() >= 2]
    vectors = [w for w in weights.values() if w.dim() < 2]
    return [{"params": matrices, "weight_decay": config["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}]


def train(rank, config, initial, inputs, targets, rendezvous, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=RANKS)
    model = Gpt(config, initial)
    parameters = list(model.weights.values())
    optimizer = ZeroRedundancyOptimizer(flat_groups(config, model.weights), optimizer_class=torch.optim.AdamW,
                                        lr=1.0, betas=config["betas"], eps=config["epsilon"])
    losses = []
    for step in range(len(inputs)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, step)
        for parameter in parameters:
            parameter.grad = None
        num_targets = (targets[step] >= 0).sum()
        micro_batches = list(zip(inputs[step].split(config["micro_batch"]), targets[step].split(config["micro_batch"])))
        loss = torch.zeros(())
        for x, y in micro_batches[rank::RANKS]:
            logits = model.logits(x.long())
            part = F.cross_entropy(logits.flatten(0, 1), y.long().flatten(), ignore_index=-1, reduction="sum")
            part = part / num_targets
            part.backward()
            loss += part.detach()
        for tensor in [loss] + [parameter.grad for parameter in parameters]:
            dist.all_reduce(tensor)
        torch.nn.utils.clip_grad_norm_(parameters, config["grad_clip"])
        optimizer.step()
        losses.append(loss.item())
    if rank == 0:
        state = sum(t.numel() for s in optimizer.optim.state.values() for t in s.values() if t.dim() > 0)
        pathlib.Path(results).write_text(json.dumps({"losses": losses, "state_elems": state}))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", required=True, help="the program gpt_trace")
    parser.add_argument("--case", required=True)
    args = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="trireme-zero-parity-") as folder:
        stem = pathlib.Path(folder) / args.case
        theirs = None
        for zero in (1, 2, 3):
            subprocess.run([args.trace, args.case, folder, SEED, str(RANKS), str(zero)], check=True)
            config = json.loads(stem.with_suffix(".json").read_text())
            if theirs is None:
                tensors = read_safetensors(stem.with_suffix(".safetensors"))
                initial = {n[len("initial."):]: t for n, t in tensors.items() if n.startswith("initial.")}
                results = str(pathlib.Path(folder) / "pytorch.json")
                torch.multiprocessing.spawn(
                    train, nprocs=RANKS,
                    args=(config, initial, tensors["inputs"], tensors["targets"], folder + "/rendezvous", results))
                theirs = json.loads(pathlib.Path(results).read_text())
                whole = 2 * sum(t.numel() for t in initial.values())
                print(f"{args.case}: PyTorch {torch.__version__}, ZeroRedundancyOptimizer over gloo, {RANKS} processes, "
                      f"{theirs['state_elems']} of {whole} state elements on process 0")
                if not 0 < theirs["state_elems"] < whole:
                    print("FAILED: the optimizer state is not sharded")
                    failed = True
            if not len(config["steps"]) == len(theirs["losses"]) == 20:
                print("FAILED: 20 steps were expected")
                failed = True
            worst = max(abs(ours["loss"] / loss - 1) for ours, loss in zip(config["steps"], theirs["losses"]))
            failed |= not worst <= LOSS
            print(f"zero {zero}: loss of any of 20 steps, largest relative difference {worst:.2e} "
                  f"{'<=' if worst <= LOSS else 'EXCEEDS'} {LOSS:.0e}")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
