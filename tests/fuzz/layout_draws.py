"""Random jobs and random layouts of them. The seed and the number determine a draw.

Nearly all draws are valid; refusals by the engine (a few per cent, on purpose) are counted.
"""
import math
import random
from dataclasses import dataclass, field

RESNET20_BLOCKS = 11
MAX_THREADS = 2
# True: draws sequence parallelism also with norms, embeddings or residual streams in fp32 beside 16 bits.
SEQUENCE_WITH_FP32_NORMS = True
FP32_OF_STREAM = {"layer_norm", "rms_norm", "embedding", "add", "dropout"}  # ops


@dataclass
class Layout:
    ranks: int  # 0: without mpirun
    keys: dict  # of [parallel], and keys of other sections that do not change the results
    exact_memory: bool = False  # its memory limit is exactly the prediction of `trireme plan`


@dataclass
class Evaluation:
    """`trireme eval` of a run's last checkpoint, compared with an evaluation of the one-rank run on one rank."""
    ranks: int
    keys: dict  # of [parallel]
    ema: bool


@dataclass
class Run:
    """A layout that plays the whole job; with `resume`, it is cut off after a checkpoint and continues there."""
    layout: Layout
    stop: int = 0  # the step of the checkpoint from which another layout continues; 0: none
    torn: bool = False  # the line of metrics after it is half written
    resume: Layout = None
    evaluation: Evaluation = None


@dataclass
class Draw:
    number: int
    job: dict  # section -> key -> value
    data: dict  # see layout_data
    runs: list = field(default_factory=list)


def often(numbers, weights):
    """A key of {value: weight}."""
    return numbers.choices(list(weights), list(weights.values()))[0]


def draw_gpt(numbers):
    heads = numbers.randint(1, 3)
    hidden = heads * numbers.randint(1, often(numbers, {4: 2, 13: 6, 21: 2, 48: 1}))
    model = {"name": "gpt", "layers": numbers.randint(1, 5), "hidden": hidden, "heads": heads,
             "vocab": numbers.choice([2, 17, 64, 67, 256, 301]), "seq_len": numbers.choice([1, 2, 7, 11, 16, 33]),
             "dropout": often(numbers, {0.0: 3, 0.1: 4, 0.5: 1}), "tied": numbers.random() < 0.5}
    data = {"form": often(numbers, {"synthetic": 3, "tokens": 2}), "vocab": model["vocab"],
            "seq_len": model["seq_len"], "shards": numbers.randint(1, 3)}
    return model, data, {"kind": "tokens" if data["form"] == "tokens" else "synthetic"}


def draw_llama(numbers):
    model, data, section = draw_gpt(numbers)
    kv_heads = numbers.randint(1, 2)
    heads = kv_heads * numbers.randint(1, 3)
    model = {**model, "name": "llama", "heads": heads, "kv_heads": kv_heads, "hidden": 2 * heads * numbers.randint(1, 6),
             "ffn": numbers.choice([1, 7, 16, 33]), "rope_theta": numbers.choice([2.0, 10000.0])}
    del model["dropout"]
    return model, data, section


def draw_lstm(numbers):
    model, data, section = draw_gpt(numbers)
    model = {**model, "name": "lstm", "hidden": numbers.randint(1, 40)}
    if not model["tied"]:
        model["embedding_size"] = numbers.randint(1, 24)
    del model["heads"]
    return model, data, section


def draw_bert(numbers):
    model, data, section = draw_gpt(numbers)
    model = {**model, "name": "bert", "vocab": max(model["vocab"], 3)}
    del model["tied"]
    data["vocab"] = model["vocab"]
    if numbers.random() < 0.3:
        return model, data, section
    model.update(seq_len=numbers.choice([2, 7, 11, 16, 70]), task=numbers.choice(["mlm", "classify"]))
    data.update(form="documents", seq_len=model["seq_len"], classes=numbers.randint(2, 6))
    if model["task"] == "classify":
        model["classes"] = data["classes"]
    section = {"kind": "documents", "pack": numbers.random() < 0.6}
    if model["task"] == "mlm":
        section["mask_probability"] = numbers.choice([0.001, 0.15, 1.0])
    return model, data, section


def draw_resnet(numbers):
    form = often(numbers, {"synthetic": 1, "folders": 3, "cifar": 1, "idx": 1})
    classes = 10 if form in ("cifar", "idx") else numbers.randint(2, 7)
    model = {"name": "resnet20", "classes": classes, "label_smoothing": numbers.choice([0.0, 0.1])}
    data = {"form": form, "classes": classes, "bad_pictures": form == "folders" and numbers.random() < 0.4}
    section = {"kind": "synthetic" if form == "synthetic" else "images", "image_size": numbers.randint(4, 12)}
    if form != "synthetic":
        section["crop"] = numbers.choice(["resized", "padded", "center"])
        section["flip"] = numbers.random() < 0.5
        if section["crop"] == "padded":
            section["padding"] = numbers.randint(0, 3)
        if numbers.random() < 0.4:
            section["mixup"] = numbers.choice([0.2, 1.0])
        if numbers.random() < 0.4:
            section["mosaic"] = numbers.choice([0.5, 1.0])
        if data["bad_pictures"]:
            section["on_bad_image"] = "skip"
    return model, data, section


def draw_image_transformer(numbers):
    resnet, data, section = draw_resnet(numbers)
    heads = numbers.randint(1, 3)
    model = {"name": numbers.choice(["vit", "cct"]), "layers": numbers.randint(1, 4), "heads": heads,
             "hidden": heads * numbers.randint(1, 8), "ffn": numbers.choice([1, 7, 16, 33]),
             "classes": resnet["classes"], "label_smoothing": resnet["label_smoothing"],
             "dropout": often(numbers, {0.0: 3, 0.1: 4, 0.5: 1}), "stochastic_depth": numbers.choice([0.0, 0.1, 0.6])}
    if model["name"] == "vit":
        model["patch"] = numbers.randint(1, 4)
        model["pool"] = numbers.choice(["class", "mean"])
        section["image_size"] = model["patch"] * numbers.randint(1, 4)
    else:
        model["convs"] = numbers.randint(1, 3)
    return model, data, section


def draw_unet(numbers):
    resnet, data, section = draw_resnet(numbers)
    for key in {"mixup", "mosaic"} & set(section):
        del section[key]
    levels, groups = numbers.randint(1, 3), numbers.choice([1, 2, 4])
    model = {"name": "unet", "layers": numbers.randint(1, 2), "norm_groups": groups,
             "widths": [groups * numbers.randint(1, 4) for _ in range(levels - 1)],
             "attention_levels": sorted(numbers.sample(range(levels), numbers.randint(1, levels))),
             "style": numbers.choice(["ddpm", "latent"]), "dropout": often(numbers, {0.0: 3, 0.1: 4})}
    model["widths"].insert(0, groups * numbers.randint(4 // groups, 6))
    if numbers.random() < 0.5:
        model["head_width"] = groups
    section["image_size"] = 2 ** levels * numbers.randint(1, 2)
    if numbers.random() < 0.4:
        model.update(channels=numbers.randint(1, 4), projection=numbers.choice(["linear", "conv"]))
        if numbers.random() < 0.6:
            model.update(condition_width=numbers.randint(1, 9), seq_len=numbers.randint(1, 7))
        data = {"form": "latents", "shape": [section["image_size"]] * 2 + [model["channels"]], "classes": data["classes"],
                "condition": [model["seq_len"], model["condition_width"]] if "condition_width" in model else [],
                "shards": numbers.randint(1, 3)}
        section = {"kind": "latents", "image_size": section["image_size"]}
    diffusion = {"schedule": numbers.choice(["linear", "scaled_linear", "cosine"]),
                 "prediction": numbers.choice(["epsilon", "v", "x0"]), "min_snr_gamma": numbers.choice([0.0, 5.0])}
    has_classes = numbers.random() < 0.5
    if (has_classes or "condition_width" in model) and numbers.random() < 0.6:
        diffusion["class_dropout"] = 0.3
    if has_classes:
        model["classes"] = data["classes"] + ("class_dropout" in diffusion)
    return model, data, section, diffusion


def cut_into_chunks(numbers, model):
    """Tensor chunks of a transformer, whose widths are multiplied by their number, and heads by as many ranks."""
    chunks = often(numbers, {1: 5, 2: 3, 4: 2})
    if chunks > 1:
        model["tensor_chunks"] = chunks
        ranks = numbers.choice([ranks for ranks in (2, 4) if ranks <= chunks])
        for key in {"hidden", "ffn"} & set(model):
            model[key] *= chunks
        for key in {"heads", "kv_heads"} & set(model):
            model[key] *= ranks


def draw_train(numbers):
    micro_batch = numbers.choice([1, 1, 2, 2, 3, 4])
    micro_batches = often(numbers, {1: 1, 2: 3, 3: 2, 4: 4, 5: 1, 6: 3, 8: 3, 12: 2})
    steps = numbers.randint(2, 4)
    return {"steps": steps, "micro_batch": micro_batch, "global_batch": micro_batch * micro_batches,
            "seed": numbers.randrange(1 << 40), "eval_every": numbers.randint(0, steps),
            "eval_batches": numbers.randint(1, 2)}


def draw_optimizer(numbers, steps):
    section = {"name": numbers.choice(["adamw", "sgd", "lion"]),
               "lr": often(numbers, {1e-3: 4, 0.03: 4, 1.0: 1, 3e38: 1}),
               "schedule": numbers.choice(["constant", "linear", "cosine", "one_cycle"]),
               "warmup_steps": numbers.randrange(steps), "weight_decay": numbers.choice([0.0, 0.1, 0.01]),
               "grad_clip": numbers.choice([0.0, 1.0, 0.01])}
    if section["schedule"] != "constant" and numbers.random() < 0.3:
        section["min_lr"] = 1e-4
    if section["name"] == "sgd":
        section["momentum"] = numbers.choice([0.0, 0.9])
        section["nesterov"] = section["momentum"] > 0 and numbers.random() < 0.5
    else:
        section["betas"] = numbers.choice([[0.9, 0.95], [0.9, 0.999], [0.0, 0.9]])
    return section


def draw_precision(numbers, model_name):
    mode = often(numbers, {"fp32": 2, "tf32": 1, "fp16": 4, "bf16": 3})
    section = {"mode": mode, "grad_dtype": often(numbers, {"fp32": 4, "compute": 2, "bf16": 1, "fp16": 1})}
    if mode == "fp16":
        section["loss_scale"] = often(numbers, {"dynamic": 8, 1024.0: 1, "off": 1})
        if section["loss_scale"] == "dynamic":
            # The larger ones overflow on purpose, for one step or for all steps.
            section["scale_init"] = often(numbers, {65536.0: 2, 2.0 ** 26: 2, 1e9: 2, 1e12: 2, 3e38: 1})
            section["scale_interval"] = numbers.randint(1, 3)
            section["scale_backoff"] = numbers.choice([0.5, 0.001])
            section["max_skips"] = often(numbers, {50: 4, 2: 1})
    of_gpt = {"linear": ["fp32", "tf32"], "attention": ["fp32", "tf32"], "embedding": ["fp32"],
              "layer_norm": ["fp32"], "dropout": ["fp32"], "add": ["fp32"], "softmax_cross_entropy": ["fp32"]}
    of_resnet = {"conv2d": ["fp32"], "batch_norm": ["fp32"], "relu": ["fp32"], "pool": ["fp32"], "add": ["fp32"],
                 "linear": ["fp32", "tf32"], "softmax_cross_entropy": ["fp32"]}
    of_llama = {"linear": ["fp32", "tf32"], "attention": ["fp32", "tf32"], "embedding": ["fp32"], "rms_norm": ["fp32"],
                "rope": ["fp32"], "swiglu": ["fp32"], "softmax_cross_entropy": ["fp32"]}
    of_images = {**of_gpt, "conv2d": ["fp32"], "relu": ["fp32"], "pool": ["fp32"]}
    of_lstm = {"lstm": ["fp32", "tf32"], "linear": ["fp32", "tf32"], "embedding": ["fp32"], "dropout": ["fp32"],
               "softmax_cross_entropy": ["fp32"]}
    of_unet = {"conv2d": ["fp32"], "linear": ["fp32", "tf32"], "attention": ["fp32", "tf32"], "group_norm": ["fp32"],
               "add": ["fp32"], "concat_channels": ["fp32"], "squared_error": ["fp32"]}
    known = {"gpt": of_gpt, "bert": of_gpt, "llama": of_llama, "lstm": of_lstm, "vit": of_images,
             "cct": of_images, "unet": of_unet}.get(model_name, of_resnet)
    if numbers.random() < 0.5:
        section["ops"] = {op: numbers.choice(known[op])
                          for op in numbers.sample(sorted(known), numbers.randint(1, 3))}
    return section


def draw_frozen_parameters(numbers, job):
    """Low-rank adapters beside frozen weights, or some frozen parameters; most jobs have neither."""
    model = job["model"]
    choice = often(numbers, {"all trained": 6, "lora": 2, "freeze": 2})
    if choice == "lora" and "layers" in model and model["name"] != "unet":
        targets = numbers.choice([["*"], ["attention.*"], ["mlp.*"]])
        if model["name"] == "lstm":
            targets = numbers.choice([["*"], ["weight_ih_l0"]])
        job["train.lora"] = {"targets": targets, "rank": 1, "alpha": numbers.choice([1.0, 4.0])}
        if numbers.random() < 0.4:
            job["train.lora"]["quantize"] = "nf4"
    elif choice == "freeze":
        patterns = {"gpt": ["embedding*", "*bias", "blocks.0.*"], "bert": ["embedding*", "*bias", "blocks.0.*"],
                    "llama": ["embedding*", "blocks.0.*"], "unet": ["conv_in*", "*bias", "mid_block*"],
                    "lstm": ["encoder*", "*bias*", "rnn.*_l0"]}.get(model["name"], ["*bias"])
        job["train"]["freeze"] = numbers.sample(patterns, numbers.randint(1, min(2, len(patterns))))


def draw_spikes(numbers, train):
    """Spike detection begins after 16 steps, so some jobs are that long."""
    train["on_spike"] = often(numbers, {"warn": 2, "skip": 3})
    if numbers.random() < 0.4:
        train["steps"] = numbers.randint(18, 22)
        train["eval_every"] = numbers.choice([0, 7])


def draw_cut(numbers, num_blocks, num_stages):
    kind = often(numbers, {"flops": 3, "parameters": 2, "blocks": 2, "measured": 1, "listed": 4})
    if kind != "listed":
        return kind
    return ", ".join(str(first) for first in sorted(numbers.sample(range(1, num_blocks), num_stages - 1)))


def draw_ranks(numbers, num_blocks, micro_batches, tensor):
    """Stages and data ranks that the job can have with `tensor` tensor ranks."""
    pairs = [(stages, data) for stages in range(1, min(num_blocks, 5) + 1) for data in range(1, 7)
             if data <= micro_batches and 2 <= stages * data * tensor <= 6]
    weights = [(1.0 if stages * data * tensor <= 4 else 0.15) * (1.0 if micro_batches % data == 0 else 0.3)
               for stages, data in pairs]
    return numbers.choices(pairs, weights)[0]


def count_blocks(model):
    if model["name"] == "unet":
        levels = len(model["widths"])
        return 4 + levels * (2 * model["layers"] + 1) + 2 * (levels - 1)
    return model["layers"] + 2 if "layers" in model else RESNET20_BLOCKS


def draw_layout(numbers, job, num_blocks):
    micro_batches = job["train"]["global_batch"] // job["train"]["micro_batch"]
    shared = math.gcd(job["model"].get("tensor_chunks", 1), job["model"].get("kv_heads", job["model"].get("heads", 1)))
    tensor = numbers.choice([ranks for ranks in (1, 2, 4) if shared % ranks == 0])
    if numbers.random() < 0.1:
        stages, data_ranks = 1, 1
    else:
        stages, data_ranks = draw_ranks(numbers, num_blocks, micro_batches, tensor)
    if numbers.random() < 0.02:  # most of these are refused
        data_ranks += 1
    keys = {"pipeline": stages, "zero": numbers.randint(0, 3)}
    if tensor > 1:
        keys["tensor"] = tensor
        shares = {"gpt", "llama", "bert"} if job["model"].get("seq_len", 1) % tensor == 0 else set()
        mixes = job["precision"]["mode"] in ("fp16", "bf16") and FP32_OF_STREAM & set(job["precision"].get("ops", {}))
        if job["model"]["name"] in shares and numbers.random() < 0.5:
            keys["sequence"] = SEQUENCE_WITH_FP32_NORMS or not mixes
    if stages > 1:
        most_chunks = min(3, num_blocks // stages)
        interleaved = most_chunks > 1 and (micro_batches >= stages * data_ranks or numbers.random() < 0.05)
        keys["schedule"] = numbers.choice(["gpipe", "1f1b", "zb-h1"] + ["interleaved"] * interleaved)
        if keys["schedule"] == "interleaved":
            keys["chunks"] = numbers.randint(2, most_chunks)
        keys["pipeline_cut"] = draw_cut(numbers, num_blocks, stages * keys.get("chunks", 1))
    if numbers.random() < 0.4:
        keys["recompute_every"] = numbers.randint(1, num_blocks - 1)
    for key in ("accumulate_unsharded", "keep_gathered"):
        if numbers.random() < 0.6:
            keys[key] = numbers.choice([True, True, False, "auto"])
    if numbers.random() < 0.5:
        keys["prefetch_depth"] = numbers.randint(0, 3)
    if numbers.random() < 0.4:
        keys["group_min_bytes"] = numbers.choice([1, 4096, 65536, 10 ** 9])
    if numbers.random() < 0.25:
        keys["offload"] = "optimizer"
    if numbers.random() < 0.25:
        keys["progress_thread"] = True
    if numbers.random() < 0.25:
        keys["threads"] = MAX_THREADS
    keys = {f"parallel.{key}": value for key, value in keys.items()}
    if numbers.random() < 0.3:
        keys["data.workers"] = numbers.randint(0, 3)
    if job["data"]["kind"] == "images" and numbers.random() < 0.3:
        keys["data.cache"] = numbers.choice([1000, 20000, "1 MiB"])
    if numbers.random() < 0.2:
        keys["checkpoint.background"] = True
    if numbers.random() < 0.3:
        keys["checkpoint.verify_every"] = numbers.randint(1, 2)
    if numbers.random() < 0.1:
        keys["log.trace_step"] = numbers.randint(1, job["train"]["steps"])
    ranks = stages * data_ranks * tensor
    exact_memory = keys.get("parallel.pipeline_cut") != "measured" and numbers.random() < 0.7
    return Layout(0 if ranks == 1 and numbers.random() < 0.5 else ranks, keys, exact_memory)


def draw_evaluation(numbers, job, num_blocks):
    """An evaluation on fewer or more ranks than the training, with keys that an evaluation accepts."""
    stages = 2 if num_blocks >= 2 and numbers.random() < 0.3 else 1
    keys = {"parallel.zero": numbers.randint(0, 3), "parallel.pipeline": stages}
    ema = job["train"].get("ema", 0.0) > 0 and numbers.random() < 0.5
    return Evaluation(stages * numbers.choice([1, 1, 2, 3]), keys, ema)


def draw_run(numbers, job, num_blocks):
    run = Run(draw_layout(numbers, job, num_blocks))
    if numbers.random() < 0.3:
        run.evaluation = draw_evaluation(numbers, job, num_blocks)
    every = job["checkpoint"]["every"]
    if every > 0 and numbers.random() < 0.6:
        run.stop = numbers.randrange(every, job["train"]["steps"], every)
        run.torn = numbers.random() < 0.5
        run.resume = draw_layout(numbers, job, num_blocks)
    return run


def draw_checkpoint_every(numbers, steps):
    if steps > 4:
        return numbers.choice([0, steps // 3, steps - 2])
    return numbers.choice([0, 1, 1, 2]) if steps > 2 else numbers.randint(0, 1)


def draw(seed, number):
    """Draw `number` of `seed`: a job, its data, and two or three runs."""
    numbers = random.Random(f"{seed}/{number}")
    family = numbers.random()
    has_tokens = family < 0.70
    draw_model = (draw_lstm if family < 0.10 else draw_gpt if family < 0.34 else draw_llama if family < 0.50 else draw_bert if has_tokens
                  else draw_resnet if family < 0.80 else draw_image_transformer if family < 0.92 else draw_unet)
    model, data, data_section, *diffusion = draw_model(numbers)
    if "heads" in model:
        cut_into_chunks(numbers, model)
    train = draw_train(numbers)
    if not has_tokens:
        train["global_batch"] = train["micro_batch"] * min(train["global_batch"] // train["micro_batch"], 6)
    data.update(seed=numbers.randrange(1 << 40), train_samples=numbers.randint(3, 40),
                eval_samples=numbers.randint(1, 20))
    if data["form"] != "synthetic" and numbers.random() < 0.3:
        train["eval_batches"] = 0  # the whole set
    if numbers.random() < 0.3:
        train["ema"] = numbers.choice([0.5, 0.999])
    if numbers.random() < 0.2:
        draw_spikes(numbers, train)
    job = {"model": model, "data": data_section, "train": train,
           "optimizer": draw_optimizer(numbers, train["steps"]),
           "precision": draw_precision(numbers, model["name"]),
           "parallel": {"threads": 1},
           "checkpoint": {"every": draw_checkpoint_every(numbers, train["steps"]), "keep": 0},
           "log": {"state_hash_every": 1}}
    if diffusion:
        job["diffusion"] = diffusion[0]
    draw_frozen_parameters(numbers, job)
    num_blocks = count_blocks(model)
    return Draw(number, job, data, [draw_run(numbers, job, num_blocks) for _ in range(numbers.randint(2, 3))])


def toml_value(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def to_toml(job):
    return "".join(f"[{section}]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in keys.items())
                   for section, keys in job.items())
