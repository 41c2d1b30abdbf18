#!/usr/bin/env python3
"""Ten training jobs of published sizes, on one GPU: how fast they are, and how fast `trireme plan` foresees them.

    card_table.py list                           the rows; with a mark behind those with a peer in PyTorch
    card_table.py ours ROW --program TRIREME [--device cpu] [--out FOLDER]    trains the row's job; one JSON object
    card_table.py theirs ROW [--device cpu]      the same model in PyTorch, compiled: peers/transformers_pytorch.py
    card_table.py foreseen --program TRIREME --cluster FILE [--device cpu] [--limit PERCENT] OURS.json...
                                                 predicted beside measured steps of what `ours` printed; one JSON object
    card_table.py missed OURS.json...            the rows below their aims
    card_table.py short ROW --program TRIREME    a run of six steps, to its end: for libkernel_trace.so
    card_table.py show TABLE.json [FORESIGHT.json]    parts of gpu_gate.sh, as tables in Markdown

`ours` ends the run when its steps are done, before the last checkpoint, which takes longer than they do. What the run has
logged goes to standard error. With `--device cpu` the models are tiny, and their speeds mean nothing. Exit code 1: a run
failed, or the median error is above the limit.
"""
import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEER = Path(__file__).resolve().parent / "peers" / "transformers_pytorch.py"
WARM_UP_STEPS = 3
SECONDS_TO_START = 120  # until a run has made its first step
SHORT_STEPS = 6


@dataclasses.dataclass
class Row:
    name: str
    model: dict           # keys of [model]
    micro_batch: int
    steps: int
    precision: str = "bf16"
    accumulated: int = 1  # micro-batches of a step
    aim: float = 0        # tokens or images a second, on an H100
    known: dict = dataclasses.field(default_factory=dict)  # rates of others on an H100: measured beside ours once, or published
    peer: str = ""        # options of PEER; empty: no peer in PyTorch

    def samples(self):
        return self.micro_batch * self.accumulated

    def rate_name(self):
        return "images_per_s" if self.model["name"] == "vit" else "tokens_per_s"


GPT_124M = {"name": "gpt", "size": "124m", "vocab": 50304, "seq_len": 1024, "dropout": 0.0}
GPT_1_5B = {"name": "gpt", "size": "1.5b", "seq_len": 1024, "dropout": 0.0}
LLAMA_0_5B = {"name": "llama", "layers": 24, "hidden": 896, "heads": 14, "kv_heads": 2, "ffn": 4864, "vocab": 151936,
              "seq_len": 1024, "tied": True}
LLAMA_1_5B = LLAMA_0_5B | {"layers": 28, "hidden": 1536, "heads": 12, "ffn": 8960}
GPT_PEER = "--model gpt --layers 12 --hidden 768 --heads 12 --vocab 50304 --context 1024 --micro-batch "

ROWS = {row.name: row for row in (
    Row("bert_fp16", {"name": "bert", "size": "base", "seq_len": 128}, 256, 30, "fp16", aim=700e3,
        known={"compiled PyTorch": 528e3},
        peer="--model bert --layers 12 --hidden 768 --heads 12 --vocab 30522 --context 128 --micro-batch 256"),
    Row("gpt2_124m_8", GPT_124M, 8, 40, aim=520e3, known={"llm.c": 449.9e3, "compiled PyTorch": 385e3}, peer=GPT_PEER + "8"),
    Row("gpt2_124m_32", GPT_124M, 32, 20, aim=600e3, known={"llm.c": 423e3}, peer=GPT_PEER + "32"),
    Row("llama_0.5b_bf16", LLAMA_0_5B, 32, 12, aim=165e3, known={"llm.q": 150e3, "compiled PyTorch": 128.7e3},
        peer="--model llama --layers 24 --hidden 896 --heads 14 --kv-heads 2 --ffn 4864 --vocab 151936 --context 1024 "
             "--tied --micro-batch 16"),
    Row("llama_0.5b_fp8", LLAMA_0_5B, 32, 12, "fp8", aim=195e3, known={"llm.q": 164e3}),
    Row("vit_l_bf16", {"name": "vit", "size": "l"}, 64, 20, aim=1250, known={"compiled PyTorch": 960},
        peer="--model vit --layers 24 --hidden 1024 --heads 16 --image-size 224 --patch 16 --classes 1000 --micro-batch 64"),
    Row("gpt2_1.5b", GPT_1_5B | {"vocab": 50304}, 8, 8, accumulated=4, aim=53e3, known={"llm.c": 47.5e3}),
    Row("gpt2_1.5b_50257", GPT_1_5B, 8, 8, accumulated=4, aim=53e3, known={"llm.c": 47.5e3}),
    Row("llama_1.5b_bf16", LLAMA_1_5B, 16, 8, accumulated=4, aim=65e3, known={"llm.q": 58.9e3}),
    Row("llama_1.5b_fp8", LLAMA_1_5B, 16, 8, "fp8", accumulated=4, aim=85e3, known={"llm.q": 73.0e3}))}

# On the CPU: models of the same families, `--scale` times as wide as these.
TINY_SIZES = {"layers": 2, "heads": 2, "seq_len": 32, "vocab": 100}
TINY = {"gpt": {"size": ""}, "llama": {"kv_heads": 1, "ffn": 128}, "bert": {"size": ""},
        "vit": {"size": "", "ffn": 128, "patch": 8, "classes": 20}}
TINY_WIDTH, TINY_PIXELS, TINY_STEPS = 32, 32, 3
TINY_PEER = ("--layers 2 --hidden 32 --heads 2 --kv-heads 1 --ffn 64 --vocab 100 --context 32 --image-size 32 --patch 8 "
             "--classes 10 --micro-batch 2")


def model_on_cpu(row, scale):
    """Of rows with one model, each has a width of its own."""
    number = list(ROWS).index(row.name)
    sizes = TINY_SIZES | {"hidden": scale * (TINY_WIDTH + 16 * (number % 3))} | TINY[row.model["name"]]
    for key in ("heads", "kv_heads", "ffn", "seq_len", "vocab"):
        if key in sizes:
            sizes[key] *= scale
    if row.model["name"] == "vit":
        del sizes["seq_len"], sizes["vocab"]
    return row.model | sizes


def job_of(row, args):
    """The keys of the row's job, by section."""
    job = {"model": row.model, "data": {"kind": "synthetic"},
           "train": {"steps": 1000, "global_batch": row.samples(), "micro_batch": row.micro_batch},
           "optimizer": {"lr": 1e-4, "weight_decay": 0.1, "betas": [0.9, 0.95], "schedule": "constant", "grad_clip": 1.0},
           "precision": {"mode": row.precision}, "parallel": {"device": args.device, "cuda_graph": args.device == "cuda"},
           "checkpoint": {"resume": "never"}}
    if args.device == "cpu":
        job["model"] = model_on_cpu(row, args.scale)
        job["train"] |= {"global_batch": 4 * row.accumulated, "micro_batch": 4}
        if row.model["name"] == "vit":
            job["data"]["image_size"] = TINY_PIXELS * args.scale
    return job


def write_job(job, path):
    lines = []
    for section, keys in job.items():
        lines += [f"[{section}]"] + [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    path.write_text("\n".join(lines) + "\n")


def plan_of(program, job, *options):
    """What `plan` prints; exit code 2: it does not fit, after its JSON."""
    done = subprocess.run([program, "plan", job, "--json", *options], capture_output=True, text=True)
    if done.returncode not in (0, 2) or not done.stdout.startswith("{"):
        raise SystemExit(f"card_table: plan ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def lines_of(path):
    """The whole lines of a file that is being written."""
    text = path.read_text() if path.exists() else ""
    return text[:text.rfind("\n") + 1].splitlines()


def trained_steps(program, job, steps, folder):
    """The metrics of the first steps of a run, which then ends."""
    out, log = folder / "out", folder / "train.txt"
    with open(log, "w") as text:
        run = subprocess.Popen([program, "train", job, "--out", out], stdin=subprocess.DEVNULL, stdout=text, stderr=text)
    try:
        started, metrics = time.monotonic(), out / "metrics.jsonl"
        while run.poll() is None and len(lines_of(metrics)) < steps:
            if not lines_of(metrics) and time.monotonic() - started > SECONDS_TO_START:
                raise SystemExit(f"card_table: no step within {SECONDS_TO_START} s")
            time.sleep(0.05)
        if len(lines_of(metrics)) < steps:
            raise SystemExit(f"card_table: train ended with {run.returncode}")
        return [json.loads(line) for line in lines_of(metrics)[:steps]]
    finally:
        run.kill()
        run.wait()
        print(log.read_text(), file=sys.stderr)


def ours(row, args):
    steps = (row.steps if args.device == "cuda" else TINY_STEPS * args.scale) + WARM_UP_STEPS
    keys = job_of(row, args)
    with tempfile.TemporaryDirectory(dir=args.out) as scratch:
        job = Path(scratch) / "job.toml"
        write_job(keys, job)
        predicted = max(group["peak_bytes"] for group in plan_of(args.program, job)["groups"])
        lines = trained_steps(args.program, job, steps, Path(scratch))[WARM_UP_STEPS:]
    step_ms = [line["step_ms"] for line in lines]
    units = keys["train"]["global_batch"] * (1 if row.rate_name() == "images_per_s" else keys["model"]["seq_len"])
    median = statistics.median(step_ms)
    return {"row": row.name, row.rate_name(): units * 1e3 / median, "step_ms": median, "min_step_ms": min(step_ms),
            "steps": len(step_ms), "peak_bytes": lines[-1]["peak_bytes"], "predicted_peak_bytes": predicted,
            "loss": lines[-1]["loss"], "aim": row.aim, "known": row.known}


def short(row, args):
    job = job_of(row, args)
    job["train"]["steps"] = SHORT_STEPS
    with tempfile.TemporaryDirectory(dir=args.out) as scratch:
        file = Path(scratch) / "job.toml"
        write_job(job, file)
        subprocess.run([args.program, "train", file, "--out", Path(scratch) / "out"], check=True, stdout=sys.stderr)


def theirs(row, args):
    """Ends with the peer's exit code."""
    if not row.peer:
        raise SystemExit(f"card_table: {row.name} has no peer in PyTorch")
    options = row.peer.split() + ["--steps", "15", "--warmup", "5", "--compile"]
    if args.device == "cpu":
        options = row.peer.split()[:2] + TINY_PEER.split()
    done = subprocess.run([sys.executable, PEER, *options, "--precision", row.precision, "--device", args.device])
    raise SystemExit(done.returncode)


def missed(args):
    for path in args.files:
        measured = json.loads(path.read_text().strip().splitlines()[-1])
        if measured[ROWS[measured["row"]].rate_name()] < measured["aim"]:
            print(measured["row"])
    return 0


def foreseen(args):
    if not args.files:
        raise SystemExit("card_table: no row was measured")
    errors, rows = {}, {}
    for path in args.files:
        measured = json.loads(path.read_text().strip().splitlines()[-1])
        row = ROWS[measured["row"]]
        with tempfile.TemporaryDirectory() as scratch:
            job = Path(scratch) / "job.toml"
            write_job(job_of(row, args), job)
            plan = plan_of(args.program, job, "--cluster", args.cluster)
        if "time" not in plan:
            raise SystemExit(f"card_table: {row.name} does not fit the device of {args.cluster}, so no time is foreseen")
        predicted = plan["time"]["step_ms"]
        errors[row.name] = 100 * (predicted / measured["step_ms"] - 1)
        rows[row.name] = {"predicted_ms": predicted, "measured_ms": measured["step_ms"], "error_percent": errors[row.name]}
    median = statistics.median(abs(error) for error in errors.values())
    print(json.dumps({"rows": rows, "median_error_percent": median, "limit_percent": args.limit,
                      "holds": median <= args.limit}))
    return 0 if median <= args.limit or args.device == "cpu" else 1


def results_of(stages, kind):
    """The results of stages of that name: by row."""
    return {name[len(kind) + 1:]: stage["result"] for name, stage in stages.items()
            if name.startswith(kind + "_") and stage.get("result")}


def show(args):
    stages = {}
    for path in args.files:
        stages |= json.loads(path.read_text())["stages"]
    mine, beside = results_of(stages, "trireme"), results_of(stages, "beside")
    print("| row | rate | aim | beside PyTorch in this call | beside others, known | memory GiB |\n"
          "| --- | --- | --- | --- | --- | --- |")
    for name, row in ROWS.items():
        if name not in mine:
            continue
        rate = mine[name][row.rate_name()]
        others = "; ".join(f"{who} {rate / known:.2f}" for who, known in row.known.items())
        speed = beside.get(name, {}).get("speed")
        print(f"| {name} | {rate:,.0f} {row.rate_name().split('_')[0]}/s | {row.aim:,.0f}: "
              f"{'reached' if rate >= row.aim else 'missed'} | {f'{speed:.2f}' if speed else ''} | {others} | "
              f"{mine[name]['peak_bytes'] / 2**30:.1f} |")
    forecast = stages.get("foreseen", {}).get("result")
    if forecast:
        print("\n| row | predicted ms | measured ms | error |\n| --- | --- | --- | --- |")
        for name, row in forecast["rows"].items():
            print(f"| {name} | {row['predicted_ms']:.2f} | {row['measured_ms']:.2f} | {row['error_percent']:+.1f} % |")
        print(f"\nmedian {forecast['median_error_percent']:.1f} %")
    return 0


def row_of(args):
    name = args.files[0] if args.files else None
    if str(name) not in ROWS:
        raise SystemExit(f"card_table: {name} is no row; there are {', '.join(ROWS)}")
    return ROWS[str(name)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "ours", "theirs", "foreseen", "missed", "short", "show"))
    parser.add_argument("files", nargs="*", type=Path, metavar="ROW | FILE")
    parser.add_argument("--program", default="trireme")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--scale", type=int, default=1, help="of the models on the CPU (default: 1)")
    parser.add_argument("--cluster")
    parser.add_argument("--limit", type=float, default=5.0)
    parser.add_argument("--out", type=Path, help="a folder for the run's files, which are removed (default: a temporary one)")
    args = parser.parse_intermixed_args()
    if args.what == "list":
        print("\n".join(row.name + (" peer" if row.peer else "") for row in ROWS.values()))
    elif args.what == "ours":
        print(json.dumps(ours(row_of(args), args)))
    elif args.what == "theirs":
        theirs(row_of(args), args)
    elif args.what == "short":
        short(row_of(args), args)
    else:
        return {"foreseen": foreseen, "missed": missed, "show": show}[args.what](args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
