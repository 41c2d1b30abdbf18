#!/usr/bin/env python3
"""Takes GPT-2, Llama and decoders like it, BERT and ViT out of folders of Hugging Face's format, trains them, and
gives them back, both ways beside PyTorch.

    torch_python.sh hf_parity.py --trireme PATH/trireme --trace PATH/hf_trace [--with transformers]

For every case: a model is saved as transformers does it (one file, shards, fp16, bf16), and our logits are compared
with those of who saved it; then a run starts from the folder (model.from, model.init_from), trains, `trireme export
--format hf` writes a folder, and the logits of who loads that are compared with those of the run. Llamas and Qwens are
also trained for ten steps of SGD here and there, and their losses compared. "Who" is modules of our own
(hf_models.py), or transformers. Exit code 1 when a figure is out of bounds, 77 (skipped) without transformers.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import torch

from gpt_parity import Report, read_safetensors, relative
from hf_models import Modules
from resnet_parity import write_safetensors

LOGITS = 1e-4  # relative, and of the largest difference
LOSSES = 1e-3  # relative, of ten steps of SGD
STEPS, RATE = 10, 0.05
GPT = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 48, "n_head": 6,
       "vocab_size": 101, "n_positions": 24, "tie_word_embeddings": True, "activation_function": "gelu_new",
       "layer_norm_epsilon": 1e-5, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
       "bos_token_id": None, "eos_token_id": None}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 48,
         "intermediate_size": 80, "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 101,
         "max_position_embeddings": 24, "rms_norm_eps": 1e-5, "rope_theta": 500.0, "rope_scaling": None,
         "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None}
QWEN2 = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 48,
         "intermediate_size": 80, "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 101,
         "max_position_embeddings": 24, "rms_norm_eps": 1e-6, "rope_theta": 500.0, "hidden_act": "silu",
         "use_sliding_window": False, "sliding_window": 16, "max_window_layers": 1, "tie_word_embeddings": True,
         "bos_token_id": None, "eos_token_id": None}
QWEN3 = {**QWEN2, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 12, "attention_bias": False}
MISTRAL = {**LLAMA, "model_type": "mistral", "architectures": ["MistralForCausalLM"]}
SMOLLM3 = {**LLAMA, "model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"], "num_hidden_layers": 4,
           "no_rope_layers": [1, 0, 1, 0], "pad_token_id": None}
OLMO2 = {**LLAMA, "model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"], "pad_token_id": None}
OLMO3 = {**OLMO2, "model_type": "olmo3", "architectures": ["Olmo3ForCausalLM"], "num_hidden_layers": 3,
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 7}
del OLMO3["rope_theta"], OLMO3["rope_scaling"]  # by kind of layer
GEMMA3 = {"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "num_hidden_layers": 3,
          "hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 12,
          "vocab_size": 101, "max_position_embeddings": 24, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 20,
          "sliding_window": 7, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
          "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True, "bos_token_id": None,
          "eos_token_id": None, "pad_token_id": None}
BERT = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "num_hidden_layers": 2, "hidden_size": 48,
        "intermediate_size": 192, "num_attention_heads": 6, "vocab_size": 101, "max_position_embeddings": 24,
        "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "tie_word_embeddings": True}
VIT = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "num_hidden_layers": 2, "hidden_size": 48,
       "intermediate_size": 80, "num_attention_heads": 6, "image_size": 24, "patch_size": 8, "num_channels": 3,
       "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": True, "hidden_dropout_prob": 0.0,
       "attention_probs_dropout_prob": 0.0, "id2label": {str(i): f"LABEL_{i}" for i in range(7)}}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
          "original_max_position_embeddings": 12}
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "original_max_position_embeddings": 12}
BY_LAYER = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}
CASES = {
    "gpt2": GPT,
    "gpt2, untied, epsilon": {**GPT, "tie_word_embeddings": False, "n_head": 4, "layer_norm_epsilon": 0.02},
    "llama": LLAMA,
    "mistral, epsilon": {**LLAMA, "model_type": "mistral", "architectures": ["MistralForCausalLM"],
                         "sliding_window": None, "rms_norm_eps": 0.03},
    "llama, wide heads": {**LLAMA, "head_dim": 12},
    "qwen2": QWEN2,
    "qwen2, untied, scaled rope": {**QWEN2, "tie_word_embeddings": False, "rope_scaling": LLAMA3},
    "qwen3": QWEN3,
    "qwen3, untied, epsilon": {**QWEN3, "tie_word_embeddings": False, "rms_norm_eps": 0.03},
    "bert": BERT,
    "bert, epsilon": {**BERT, "layer_norm_eps": 0.02},
    "vit": VIT,
    "llama, tied, scaled rope": {**LLAMA, "tie_word_embeddings": True, "rope_scaling": LLAMA3, "num_key_value_heads": 6},
}
# Cases that hf_models.py does not model: with transformers only.
LIBRARY_CASES = {
    "llama, linear rope": {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 3.0}},
    "llama, yarn": {**LLAMA, "rope_scaling": YARN},
    "qwen2, yarn, factor": {**QWEN2, "rope_scaling": {**YARN, "attention_factor": 0.9}},
    "mistral, window": {**MISTRAL, "sliding_window": 7},
    "qwen2, windows": {**QWEN2, "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    "smollm3": SMOLLM3,
    "olmo2": OLMO2,
    "olmo3, windows": {**OLMO3, "rope_parameters": {"full_attention": {**YARN, "rope_theta": 500.0},
                                                    "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}},
    "gemma3": {**GEMMA3, "rope_parameters": BY_LAYER},
    "gemma3, untied, epsilon": {**GEMMA3, "rope_parameters": BY_LAYER, "tie_word_embeddings": False, "rms_norm_eps": 0.03},
}
# (dtype, shards) of what is read.
FILES = ((torch.float32, 1), (torch.float32, 3), (torch.float16, 2), (torch.bfloat16, 1))
WORDS = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}

JOB = """
[model]
from = "hf:{folder}"
init_from = "{folder}"
[data]
kind = "synthetic"
[train]
steps = 2
global_batch = 4
micro_batch = 2
[optimizer]
lr = 0.01
[parallel]
threads = 1
"""

SGD_JOB = """
[model]
from = "hf:{folder}"
init_from = "{folder}"
[data]
kind = "tokens"
train = "tokens.bin"
[train]
steps = {steps}
global_batch = 1
micro_batch = 1
{more}
[optimizer]
name = "sgd"
momentum = 0.0
lr = {rate}
weight_decay = 0.0
grad_clip = 0.0
schedule = "constant"
[parallel]
threads = 1
"""


def run(command, folder):
    result = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise SystemExit(f"hf_parity.py: {command}: {result.stderr}")


def randomize(model):
    """Gains and biases, too, so that none can be mistaken for another."""
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_gain = parameter.dim() == 1 and not name.endswith("bias")
            parameter.copy_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.2) + (1.0 if is_gain else 0.0))


class Comparison:
    def __init__(self, theirs, args, folder, bound=LOGITS):
        self.theirs, self.args, self.folder, self.bound, self.report = theirs, args, folder, bound, Report()
        self.inputs = None

    def draw_inputs(self, config):
        generator = torch.Generator().manual_seed(3)
        if config["model_type"] == "vit":
            size = config["image_size"]
            name, self.inputs = "images", torch.randn((3, size, size, 3), generator=generator)
        else:
            name, self.inputs = "tokens", torch.randint(0, 101, (3, 24), generator=generator, dtype=torch.int32)
        write_safetensors(self.folder / "inputs.safetensors", {name: self.inputs})

    def ours(self, place):
        run([self.args.trace, place, "inputs.safetensors", "logits.safetensors"], self.folder)
        return read_safetensors(self.folder / "logits.safetensors")["logits"]

    def check(self, what, ours, theirs):
        self.report.require(ours.shape == theirs.shape, f"{what}: {ours.shape} {theirs.shape}")
        self.report.check(what, max(relative(ours, theirs), (ours - theirs).abs().max().item() / theirs.abs().max().item()),
                          self.bound)

    def read(self, case, stem, model, config):
        for dtype, shards in FILES:
            folder = self.folder / f"{stem}-{WORDS[dtype]}-{shards}"
            self.theirs.save(model, config, folder, dtype, shards)
            files = len(list(folder.glob("*.safetensors")))
            self.report.require(files == shards if shards == 1 else files > 1, f"{folder} has {files} files")
            rounded = self.theirs.build(config)
            rounded.load_state_dict({n: t.to(dtype).float() for n, t in model.state_dict().items()})
            self.check(f"{case}: theirs read by us, {WORDS[dtype]}, {files} file(s)", self.ours(folder.name),
                       self.theirs.logits(rounded, self.inputs))

    def written(self, case, stem, model):
        (self.folder / f"{stem}.toml").write_text(JOB.format(folder=f"{stem}-fp32-3"))
        run([self.args.trireme, "train", f"{stem}.toml", "--out", stem], self.folder)
        trained = self.ours(stem)
        before = self.theirs.logits(model, self.inputs)
        self.report.require(relative(trained, before) > 1e-2, f"{case}: training changed nothing")
        for dtype, word in WORDS.items():
            out = self.folder / f"{stem}-out-{word}"
            run([self.args.trireme, "export", stem, "--format", "hf", "--dtype", word, "--out", out], self.folder)
            back, dtypes = self.theirs.load(out)
            self.report.require(dtypes == {dtype}, f"{out} holds {dtypes}")
            theirs = self.theirs.logits(back, self.inputs)
            if dtype == torch.float32:
                self.check(f"{case}: a run of ours read by them", trained, theirs)
            self.check(f"{case}: our {word} read by us and by them", self.ours(out), theirs)

    def losses(self, case, stem, model):
        """Ten steps of SGD on one sample, here and there."""
        tokens = torch.randint(0, 101, (1, 25), generator=torch.Generator().manual_seed(7), dtype=torch.int32)
        header = struct.pack("<256i", 20240520, 1, tokens.numel(), *[0] * 253)
        (self.folder / "tokens.bin").write_bytes(header + struct.pack(f"<{tokens.numel()}H", *tokens[0].tolist()))
        (self.folder / "sgd.toml").write_text(SGD_JOB.format(folder=f"{stem}-fp32-1", steps=STEPS, rate=RATE, more=""))
        run([self.args.trireme, "train", "sgd.toml", "--out", f"{stem}-sgd"], self.folder)
        lines = (self.folder / f"{stem}-sgd" / "metrics.jsonl").read_text().splitlines()
        ours = torch.tensor([entry["loss"] for entry in map(json.loads, lines) if "loss" in entry])
        optimizer, theirs = torch.optim.SGD(model.parameters(), RATE), []
        for _ in range(STEPS):
            logits = self.theirs.forward(model, tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].long().flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            theirs.append(loss.item())
        self.report.require(len(ours) == STEPS and theirs[-1] < 0.9 * theirs[0], f"{case}: losses {ours} {theirs}")
        self.report.check(f"{case}: losses of {STEPS} steps", ((ours - torch.tensor(theirs)).abs() / ours).max().item(), LOSSES)

    def compare(self, case, config):
        stem = case.replace(", ", "-").replace(" ", "-")
        self.draw_inputs(config)
        model = self.theirs.build(config)
        randomize(model)
        self.read(case, stem, model, config)
        self.written(case, stem, model)
        if config["architectures"][0].endswith("ForCausalLM"):
            self.losses(case, stem, model)


def transformers_library():
    try:
        import transformers
    except ImportError as error:
        print(f"no transformers in {sys.executable} ({error}): pip install transformers, and set TRIREME_TORCH_PYTHON")
        print("[  SKIPPED ] hf_parity.py (0 ms)\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] hf_parity.py")
        sys.exit(77)

    def auto_class(config):
        return {"bert": transformers.AutoModelForMaskedLM,
                "vit": transformers.AutoModelForImageClassification}.get(config["model_type"],
                                                                         transformers.AutoModelForCausalLM)

    class Transformers:
        name = f"transformers {transformers.__version__}, PyTorch {torch.__version__}"

        @staticmethod
        def build(config):
            settings = {k: v for k, v in config.items() if k != "architectures"}
            made = transformers.AutoConfig.for_model(**settings)
            return auto_class(config).from_config(made).eval()

        @staticmethod
        def save(model, config, folder, dtype, shards):
            copy = Transformers.build(config)
            copy.load_state_dict(model.state_dict())
            copy.to(dtype).save_pretrained(folder, max_shard_size="50KB" if shards > 1 else "1GB")

        @staticmethod
        def load(folder):
            auto = auto_class(json.loads((folder / "config.json").read_text()))
            model, info = auto.from_pretrained(folder, output_loading_info=True)
            if any(info.values()):
                raise SystemExit(f"hf_parity.py: {folder}: {info}")
            dtypes = {parameter.dtype for parameter in model.parameters()}
            model = model.float().eval()
            for module in model.modules():  # Gemma's factor, which was rounded to the dtype of the weights
                if hasattr(module, "embed_scale"):
                    module.embed_scale.fill_(model.config.hidden_size ** 0.5)
            return model, dtypes

        @staticmethod
        def logits(model, inputs):
            with torch.no_grad():
                if inputs.is_floating_point():
                    return model(pixel_values=inputs.permute(0, 3, 1, 2)).logits
                return Transformers.forward(model, inputs)

        @staticmethod
        def forward(model, tokens):
            return model(input_ids=tokens.long()).logits

    return Transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, type=pathlib.Path)
    parser.add_argument("--trace", required=True, type=pathlib.Path)
    parser.add_argument("--with", dest="oracle", choices=("modules", "transformers"), default="modules")
    args = parser.parse_args()
    args.trireme, args.trace = args.trireme.resolve(), args.trace.resolve()
    torch.set_num_threads(1)  # small matrices
    theirs = transformers_library() if args.oracle == "transformers" else Modules
    print(theirs.name)
    print(f"{'relative difference':<58} {'reached':>9}  bound")
    with tempfile.TemporaryDirectory(prefix="trireme-parity-") as folder:
        comparison = Comparison(theirs, args, pathlib.Path(folder))
        for case, config in (CASES if args.oracle == "modules" else CASES | LIBRARY_CASES).items():
            comparison.compare(case, config)
    if comparison.report.failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
