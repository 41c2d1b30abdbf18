"""GPT-2, Llama, Qwen2, Qwen3, BERT and ViT as PyTorch modules whose state has the names and shapes of Hugging Face's
files, and the folders that hold them: what hf_parity.py compares with where transformers itself is not installed.

Written from the papers and the format, not from its code: linear layers of GPT-2 keep [in, out], rotary positions turn
the two halves of a head.
"""

import json
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

from gpt_parity import attend, read_safetensors
from resnet_parity import write_safetensors


class Transposed(nn.Module):
    """A linear layer that keeps [in, out]."""

    def __init__(self, wide_in, wide_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(wide_in, wide_out))
        self.bias = nn.Parameter(torch.empty(wide_out))

    def forward(self, x):
        return x @ self.weight + self.bias


def split_heads(x, heads):
    b, t, c = x.shape
    return x.view(b, t, heads, c // heads).transpose(1, 2)


def join_heads(x):
    b, h, t, d = x.shape
    return x.transpose(1, 2).reshape(b, t, h * d)


class GptLayer(nn.Module):
    def __init__(self, width, heads, eps):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        self.attn = nn.ModuleDict({"c_attn": Transposed(width, 3 * width), "c_proj": Transposed(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": Transposed(width, 4 * width), "c_proj": Transposed(4 * width, width)})

    def forward(self, x):
        q, k, v = (split_heads(y, self.heads) for y in self.attn["c_attn"](self.ln_1(x)).chunk(3, dim=-1))
        x = x + self.attn["c_proj"](join_heads(attend(q, k, v)))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, eps = config["n_embd"], config["layer_norm_epsilon"]
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(config["vocab_size"], width), "wpe": nn.Embedding(config["n_positions"], width),
            "h": nn.ModuleList(GptLayer(width, config["n_head"], eps) for _ in range(config["n_layer"])),
            "ln_f": nn.LayerNorm(width, eps=eps)})
        self.lm_head = None if config["tie_word_embeddings"] else nn.Linear(width, config["vocab_size"], bias=False)

    def forward(self, tokens):
        net = self.transformer
        x = net["wte"](tokens) + net["wpe"].weight[:tokens.shape[1]]
        for layer in net["h"]:
            x = layer(x)
        x = net["ln_f"](x)
        return F.linear(x, net["wte"].weight) if self.lm_head is None else self.lm_head(x)


class RmsNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.empty(width)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def turned(x, angles):
    first, second = x.chunk(2, dim=-1)
    cos, sin = (f(angles[:x.shape[2]]).float() for f in (torch.cos, torch.sin))
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class LlamaLayer(nn.Module):
    def __init__(self, config, angles):
        super().__init__()
        width, ffn, eps = config["hidden_size"], config["intermediate_size"], config["rms_norm_eps"]
        self.heads, self.kv_heads, self.angles = config["num_attention_heads"], config["num_key_value_heads"], angles
        head_dim, biased = head_dim_of(config), config["model_type"] == "qwen2"
        q, kv = head_dim * self.heads, head_dim * self.kv_heads
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(width, eps), RmsNorm(width, eps)
        self.self_attn = nn.ModuleDict({name + "_proj": nn.Linear(width, out, bias=biased)
                                        for name, out in (("q", q), ("k", kv), ("v", kv))})
        self.self_attn.update({name: RmsNorm(head_dim, eps) for name in ("q_norm", "k_norm")
                               if config["model_type"] == "qwen3"})
        self.self_attn["o_proj"] = nn.Linear(q, width, bias=False)
        self.mlp = nn.ModuleDict({"gate_proj": nn.Linear(width, ffn, bias=False),
                                  "up_proj": nn.Linear(width, ffn, bias=False),
                                  "down_proj": nn.Linear(ffn, width, bias=False)})

    def forward(self, x):
        h, attn, mlp = self.input_layernorm(x), self.self_attn, self.mlp
        q, k = split_heads(attn["q_proj"](h), self.heads), split_heads(attn["k_proj"](h), self.kv_heads)
        if "q_norm" in attn:
            q, k = attn["q_norm"](q), attn["k_norm"](k)
        q, k = turned(q, self.angles), turned(k, self.angles)
        v = split_heads(attn["v_proj"](h), self.kv_heads)
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, dim=1) for y in (k, v))
        x = x + attn["o_proj"](join_heads(attend(q, k, v)))
        h = self.post_attention_layernorm(x)
        return x + mlp["down_proj"](F.silu(mlp["gate_proj"](h)) * mlp["up_proj"](h))


def head_dim_of(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def rope_angles(config):
    """[positions, pairs], in double."""
    pairs = head_dim_of(config) // 2
    rates = config["rope_theta"] ** -(torch.arange(pairs, dtype=torch.float64) / pairs)
    scaling = config.get("rope_scaling")
    if scaling:
        turns = scaling["original_max_position_embeddings"] * rates / (2 * math.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        rates = rates * (kept + (1 - kept) / scaling["factor"])
    return torch.outer(torch.arange(config["max_position_embeddings"], dtype=torch.float64), rates)


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, vocab, angles = config["hidden_size"], config["vocab_size"], rope_angles(config)
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(vocab, width),
            "layers": nn.ModuleList(LlamaLayer(config, angles) for _ in range(config["num_hidden_layers"])),
            "norm": RmsNorm(width, config["rms_norm_eps"])})
        self.lm_head = None if config["tie_word_embeddings"] else nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        net = self.model
        x = net["embed_tokens"](tokens)
        for layer in net["layers"]:
            x = layer(x)
        x = net["norm"](x)
        return F.linear(x, net["embed_tokens"].weight) if self.lm_head is None else self.lm_head(x)


class BertLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, self.heads, eps = config["hidden_size"], config["num_attention_heads"], config["layer_norm_eps"]
        self.attention = nn.ModuleDict({
            "self": nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")}),
            "output": nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, eps=eps)})})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, 4 * width)})
        self.output = nn.ModuleDict({"dense": nn.Linear(4 * width, width), "LayerNorm": nn.LayerNorm(width, eps=eps)})

    def forward(self, x):
        own, out = self.attention["self"], self.attention["output"]
        q, k, v = (split_heads(own[name](x), self.heads) for name in ("query", "key", "value"))
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
        x = out["LayerNorm"](x + out["dense"](join_heads(scores @ v)))
        h = F.gelu(self.intermediate["dense"](x))
        return self.output["LayerNorm"](x + self.output["dense"](h))


class BertPredictions(nn.Module):
    def __init__(self, width, vocab, eps):
        super().__init__()
        self.transform = nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, eps=eps)})
        self.bias = nn.Parameter(torch.empty(vocab))

    def forward(self, x, table):
        x = self.transform["LayerNorm"](F.gelu(self.transform["dense"](x)))
        return F.linear(x, table, self.bias)


class Bert(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, vocab, eps = config["hidden_size"], config["vocab_size"], config["layer_norm_eps"]
        self.bert = nn.ModuleDict({
            "embeddings": nn.ModuleDict({
                "word_embeddings": nn.Embedding(vocab, width),
                "position_embeddings": nn.Embedding(config["max_position_embeddings"], width),
                "token_type_embeddings": nn.Embedding(2, width), "LayerNorm": nn.LayerNorm(width, eps=eps)}),
            "encoder": nn.ModuleDict({"layer": nn.ModuleList(BertLayer(config) for _ in range(config["num_hidden_layers"]))})})
        self.cls = nn.ModuleDict({"predictions": BertPredictions(width, vocab, eps)})

    def forward(self, tokens):
        net = self.bert["embeddings"]
        x = net["word_embeddings"](tokens) + net["position_embeddings"].weight[:tokens.shape[1]]
        x = net["LayerNorm"](x + net["token_type_embeddings"].weight[0])
        for layer in self.bert["encoder"]["layer"]:
            x = layer(x)
        return self.cls["predictions"](x, net["word_embeddings"].weight)


class VitLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, ffn, eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
        self.heads = config["num_attention_heads"]
        self.layernorm_before, self.layernorm_after = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        self.attention = nn.ModuleDict({
            "attention": nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")}),
            "output": nn.ModuleDict({"dense": nn.Linear(width, width)})})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, ffn)})
        self.output = nn.ModuleDict({"dense": nn.Linear(ffn, width)})

    def forward(self, x):
        h, own = self.layernorm_before(x), self.attention["attention"]
        q, k, v = (split_heads(own[name](h), self.heads) for name in ("query", "key", "value"))
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
        x = x + self.attention["output"]["dense"](join_heads(scores @ v))
        return x + self.output["dense"](F.gelu(self.intermediate["dense"](self.layernorm_after(x))))


class VitEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, patch = config["hidden_size"], config["patch_size"]
        tokens = (config["image_size"] // patch) ** 2 + 1
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        self.position_embeddings = nn.Parameter(torch.empty(1, tokens, width))
        self.patch_embeddings = nn.ModuleDict({"projection": nn.Conv2d(3, width, patch, stride=patch)})

    def forward(self, images):
        x = self.patch_embeddings["projection"](images).flatten(2).transpose(1, 2)
        return torch.cat([self.cls_token.expand(len(x), 1, -1), x], dim=1) + self.position_embeddings


class Vit(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["hidden_size"]
        self.vit = nn.ModuleDict({
            "embeddings": VitEmbeddings(config),
            "encoder": nn.ModuleDict({"layer": nn.ModuleList(
                VitLayer(config) for _ in range(config["num_hidden_layers"]))}),
            "layernorm": nn.LayerNorm(width, eps=config["layer_norm_eps"])})
        self.classifier = nn.Linear(width, len(config["id2label"]))

    def forward(self, images):
        x = self.vit["embeddings"](images)
        for layer in self.vit["encoder"]["layer"]:
            x = layer(x)
        return self.classifier(self.vit["layernorm"](x)[:, 0])


class Modules:
    """Saves and loads them as transformers does its own."""

    name = "modules of our own, in PyTorch " + torch.__version__

    @staticmethod
    def build(config):
        return {"gpt2": Gpt, "llama": Llama, "mistral": Llama, "qwen2": Llama, "qwen3": Llama, "bert": Bert,
                "vit": Vit}[config["model_type"]](config)

    @staticmethod
    def save(model, config, folder, dtype, shards):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        tensors = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
        if shards == 1:
            write_safetensors(folder / "model.safetensors", tensors)
            return
        files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
        places = {name: files[i % shards] for i, name in enumerate(tensors)}
        for file in files:
            write_safetensors(folder / file, {name: t for name, t in tensors.items() if places[name] == file})
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))

    @staticmethod
    def load(folder):
        """The model, in fp32, and the dtypes of its tensors."""
        tensors = read_safetensors(pathlib.Path(folder) / "model.safetensors")
        model = Modules.build(json.loads((pathlib.Path(folder) / "config.json").read_text()))
        model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=True)
        return model, {tensor.dtype for tensor in tensors.values()}

    @staticmethod
    def logits(model, inputs):
        """Of tokens [B, T], or of images [B, H, W, 3]."""
        with torch.no_grad():
            return model(inputs.permute(0, 3, 1, 2)) if inputs.is_floating_point() else Modules.forward(model, inputs)

    @staticmethod
    def forward(model, tokens):
        return model(tokens.long())
