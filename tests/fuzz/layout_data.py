"""Writes data sets for random jobs: token shards, documents, class folders of PNG files, CIFAR's and MNIST's files,
shards of latents."""
import json
import math
import random
import struct
import zlib

TOKEN_MAGIC = 20240520
DOCUMENT_MAGIC = 20241119
CIFAR_PIXELS = 3 * 32 * 32


def png(width, height, pixels):
    """An RGB picture of `pixels`, 3 * width * height bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def write_shard(path, numbers, num_tokens, vocab):
    header = [TOKEN_MAGIC, 1, num_tokens] + [0] * 253
    path.write_bytes(struct.pack("<256i", *header)
                     + struct.pack(f"<{num_tokens}H", *(numbers.randrange(vocab) for _ in range(num_tokens))))


def write_tokens(folder, numbers, data):
    """One file, or a folder of shards with one shard that is too short for a sample."""
    for split, num_samples in (("train", data["train_samples"]), ("eval", data["eval_samples"])):
        num_tokens = num_samples * data["seq_len"] + 1
        if data["shards"] == 1:
            write_shard(folder / f"{split}.bin", numbers, num_tokens, data["vocab"])
            continue
        (folder / split).mkdir()
        for shard in range(data["shards"]):
            write_shard(folder / split / f"{shard}.bin", numbers, num_tokens + numbers.randrange(data["seq_len"]),
                        data["vocab"])
        write_shard(folder / split / "short.bin", numbers, 1, data["vocab"])


def write_documents(folder, numbers, data):
    """Documents in two segments, with labels; some are longer than a row."""
    for split, count in (("train", data["train_samples"]), ("eval", data["eval_samples"])):
        lengths = [numbers.randint(1, data["seq_len"] + 3) for _ in range(count)]
        write_shard(folder / f"{split}.bin", numbers, sum(lengths), data["vocab"] - 1)
        content = struct.pack("<256i", DOCUMENT_MAGIC, 1, count, *[0] * 253)
        for length in lengths:
            content += struct.pack("<3i", length, numbers.randint(0, length), numbers.randrange(data["classes"]))
        (folder / f"{split}.documents").write_bytes(content)


def write_class_folders(folder, numbers, data):
    """With data["bad_pictures"], some files are truncated or are not images."""
    for split, num_samples in (("train", data["train_samples"]), ("eval", data["eval_samples"])):
        for i in range(max(num_samples, data["classes"])):
            path = folder / split / f"class{i % data['classes']}" / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            width, height = numbers.randint(5, 20), numbers.randint(5, 20)
            content = png(width, height, numbers.randbytes(3 * width * height))
            if data["bad_pictures"] and numbers.random() < 0.2 and i > 0:
                content = content[:len(content) // 2] if numbers.random() < 0.5 else b"no picture"
            path.write_bytes(content)


def write_cifar(folder, numbers, data):
    def pictures(count):
        return b"".join(bytes([numbers.randrange(10)]) + numbers.randbytes(CIFAR_PIXELS) for _ in range(count))
    first = data["train_samples"] // 2
    (folder / "data_batch_1.bin").write_bytes(pictures(first))
    (folder / "data_batch_2.bin").write_bytes(pictures(data["train_samples"] - first))
    (folder / "test_batch.bin").write_bytes(pictures(data["eval_samples"]))


def write_idx(folder, numbers, data):
    for split, count in (("train", data["train_samples"]), ("t10k", data["eval_samples"])):
        side = 9
        (folder / f"{split}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 0x803, count, side, side) + numbers.randbytes(count * side * side))
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, count) + bytes(numbers.randrange(10) for _ in range(count)))


def write_latents(folder, numbers, data):
    """Shards with all tensors; the dtype of numbers differs between shards."""
    def array(dtype, shape):
        elems = math.prod(shape)
        if dtype == "I32":
            return dtype, shape, struct.pack(f"<{elems}i", *(numbers.randrange(data["classes"]) for _ in range(elems)))
        return dtype, shape, struct.pack(f"<{elems}{'f' if dtype == 'F32' else 'e'}", *(numbers.gauss(0, 1) for _ in range(elems)))
    for split, count in (("train", data["train_samples"]), ("eval", data["eval_samples"])):
        (folder / split).mkdir()
        sizes = [len(range(shard, count, data["shards"])) for shard in range(data["shards"])]
        for shard, size in enumerate(size for size in sizes if size > 0):
            dtype = numbers.choice(["F32", "F16"])
            tensors = {"latents": array(dtype, [size, *data["shape"]]), "classes": array("I32", [size])}
            if data["condition"]:
                tensors["condition"] = array(dtype, [size, *data["condition"]])
                tensors["null_condition"] = array(dtype, data["condition"])
            write_safetensors(folder / split / f"{shard}.safetensors", tensors)


def write_safetensors(path, tensors):
    """`tensors`: name -> (dtype, shape, bytes)."""
    header, offset = {}, 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(content)]}
        offset += len(content)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(content for _, _, content in tensors.values()))


WRITERS = {"tokens": write_tokens, "documents": write_documents, "folders": write_class_folders, "cifar": write_cifar,
           "idx": write_idx, "latents": write_latents}


def paths(folder, data):
    """Values of data.train and data.eval."""
    if data["form"] == "synthetic":
        return "", "synthetic too"
    if data["form"] == "documents" or (data["form"] == "tokens" and data["shards"] == 1):
        return str(folder / "train.bin"), str(folder / "eval.bin")
    if data["form"] in ("tokens", "folders", "latents"):
        return str(folder / "train"), str(folder / "eval")
    return str(folder), str(folder)


def write_data(folder, data):
    """Creates `folder` with the data that `data` describes (see layout_draws.py). Equal `data` gives equal bytes."""
    if data["form"] == "synthetic":
        return
    folder.mkdir()
    WRITERS[data["form"]](folder, random.Random(data["seed"]), data)
