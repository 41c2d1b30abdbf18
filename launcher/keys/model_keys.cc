// The keys of [model].
#include "launcher/families/hf_exchange.h"
#include "launcher/families/model_family.h"
#include "launcher/keys/key_rules.h"
#include "launcher/keys/key_scopes.h"
#include "launcher/keys/section_keys.h"

namespace trireme {
namespace {

/// `first`, followed by the entries of one list of all families.
std::vector<std::string> all_of(std::span<const std::string_view> ModelFamily::*list,
                                std::vector<std::string> first = {}) {
  for (const ModelFamily* family : model_families()) {
    first.insert(first.end(), (family->*list).begin(), (family->*list).end());
  }
  return first;
}

}  // namespace

/// Must be called before keys of other sections are added.
void add_model_keys(std::vector<ConfigKey>& keys) {
  using M = ModelSection;
  SectionKeys<M>(keys, "model", &JobConfig::model)
      .add("name", &M::name, one_of(all_of(&ModelFamily::names)),
           "Architecture. `resnet20`, `resnet56` and `cct` are for CIFAR's small images.")
      .add("from", &M::from, empty_or_after(std::string(kHfPrefix), "FOLDER"),
           "Folder of transformers or diffusers whose config.json sets `name` and the shape, in place of "
           "`size`. Keys of the job override it. Contexts above 2048 tokens are reduced to 2048, unless the "
           "model has a position table. Weights are read by `init_from`.")
      .add("init_from", &M::init_from, any(),
           "Source of the initial parameters and running statistics: a checkpoint; the output folder of a "
           "run; a safetensors file in fp32 with this model's names and shapes (ResNets and ViTs: "
           "torchvision's; LSTMs: `encoder`, `rnn` and `decoder` as in PyTorch's word_language_model); or, "
           "for "
           "GPTs, Llamas, BERTs and ViTs, a folder of Hugging Face's transformers in fp32, fp16 or bf16, in "
           "one file or several shards; for UNets such a folder of diffusers. Empty: initialized from "
           "`train.seed`. A run that resumes from a "
           "checkpoint does not read it.")
      .add("new_head", &M::new_head, any(),
           "Initialize the classification layer from `train.seed` although `init_from` has one, to fine-tune "
           "for other classes. Needs `init_from`. For images, and for documents with `task` = classify. If "
           "false, and both the data and `init_from` have class names, classes are matched by name.")
      .add("task", &M::task,
           "`mlm`: masked language modelling. `classify`: one class per document (`data.kind` = documents), "
           "with a separate head. `init_from` then reads the encoder, also of a model with the other task.")
      .add("classes", &M::classes, count_from(0),
           "Number of classes of the images, or of documents with `task` = classify. 0: the number in "
           "`from`, else the number of classes in the data. The published number, 1000 or 10, is used for "
           "packed and synthetic images, and with an `init_from` whose head is kept. UNets: rows of the "
           "class table; 0: not class-conditional.")
      .add("label_smoothing", &M::label_smoothing, from_to_below(0, 1),
           "Share of a label that is spread over all classes in training.")
      .add(
          "size", &M::size, one_of(all_of(&ModelFamily::sizes, {""})),
          "Published shape. `gpt`: 124m to 13b (GPT-2 and GPT-3). `llama`: 15m (for CPUs), 1b and 3b (3.2), "
          "8b (3.1). `bert`: tiny, base, large. `lstm`: ptb-medium, ptb-large (Zaremba et al. 2014), char. "
          "`vit`: ti, s, b, l, h. `cct`: layers/kernelxconvs. `unet`: cifar-tiny and cifar-small (for CPUs), "
          "ddpm-cifar10 (Ho et al. 2020), sd1 and sd2 (Stable Diffusion). The keys below override parts of "
          "it. Empty: "
          "the keys below define the shape.")
      .add(
          "layers", &M::layers, count_from(0),
          "Transformer blocks, LSTM layers, or residual units of each level of a UNet. 0: taken from `size`.")
      .add("hidden", &M::hidden, count_from(0),
           "Width of the residual stream, or units of an LSTM layer. 0: taken from `size`.")
      .add("heads", &M::heads, count_from(0),
           "Attention heads; must divide `hidden`, or the `widths` of levels with attention. 0: taken from "
           "`size`, or "
           "from `head_width`.")
      .add("kv_heads", &M::kv_heads, count_from(0),
           "Heads of keys and values; each is shared by an equal number of query heads (grouped-query "
           "attention). Must divide `heads`. 0: taken from `size`; without `size`, equal to `heads`.")
      .add("ffn", &M::ffn, count_from(0),
           "Width of the MLP. 0: taken from `size`. Without `size`: `llama` 8/3 of `hidden`, rounded up to a "
           "multiple of 64; `vit` 4 times `hidden`; `cct` `hidden`.")
      .add("embedding_size", &M::embedding_size, count_from(0),
           "Width of the token embedding. 0: taken from `size`; without `size`, or with `hidden`, equal to "
           "`hidden`.")
      .add("vocab", &M::vocab, count_from(0),
           "Tokens in the vocabulary. 0: taken from `size`; without `size`, from the tokenizer of the "
           "training data, with one more for the mask in `bert`.")
      .add(
          "seq_len", &M::seq_len, count_from(0),
          "Context in tokens; for `lstm` the tokens of a training sample, which starts from a zero state. 0: "
          "taken from `size`.")
      .add("image_size", &M::image_size, from_to(0, 4096),
           "Side in pixels of the images that positions are learned for. 0: `data.image_size`. If both are "
           "set, they must be equal. A UNet learns no positions: `data.image_size` has precedence.")
      .add("patch", &M::patch, from_to(0, 4096),
           "Side of a patch (token) in pixels; must divide the image's side. 0: as published, 16, or 14 for "
           "size h.")
      .add("convs", &M::convs, from_to(0, 16),
           "Number of 3 x 3 convolutions in the tokenizer, each with a max pool that halves the image. 0: "
           "taken from `size`; without `size`, 2.")
      .add("channels", &M::channels, from_to(0, 1024),
           "Channels of the images or latents. 0: taken from `size`; without `size`, 3.")
      .add("widths", &M::widths, from_to(1, 65536),
           "Channels of each resolution level of a UNet, from the full resolution on. Each level halves the "
           "image of the one before. Empty: taken from `size`.")
      .add("attention_levels", &M::attention_levels, from_to(0, 9),
           "Levels of a UNet whose units have attention, counted from 0; its middle has attention in every "
           "case. Empty: taken from `size`; without `size`, none.")
      .add("head_width", &M::head_width, count_from(0),
           "Width of an attention head. `llama`: 0 is `hidden` / `heads`. UNets: in place of `heads`; if "
           "both are "
           "0, taken from `size`; without `size`, one head.")
      .add("qkv_bias", &M::qkv_bias, any(),
           "The projections to queries, keys and values have biases, as in Qwen2 and Qwen2.5.")
      .add("qk_norm", &M::qk_norm,
           "RMS norms of queries and keys. `head`: of each head, with weights that all heads share, as in "
           "Qwen3 and Gemma 3. `whole`: of all heads as one vector, as in OLMo 2; needs `tensor_chunks` = 1.")
      .add("norm_position", &M::norm_position,
           "RMS norms of the attention and the MLP of a layer. `before`: of their inputs. `after`: of their "
           "outputs, before they are added to the residual stream, as in OLMo 2. `both`: as in Gemma 3.")
      .add("norm_unit_offset", &M::norm_unit_offset, any(),
           "Norms multiply by 1 + weight, and weights start at 0, as in Gemma 3.")
      .add("mlp_gate", &M::mlp_gate,
           "Activation of the MLP's gate. `gelu`: the approximation with tanh, as in Gemma 3.")
      .add("embedding_scale", &M::embedding_scale, above(0),
           "Factor of the token embeddings. Gemma 3: the square root of `hidden`.")
      .add("query_scalar", &M::query_scalar, at_least(0),
           "Attention scores are divided by the square root of this number. 0: the width of a head.")
      .add("window", &M::window, count_from(0),
           "Sliding window in tokens: a token attends to itself and to the `window` - 1 tokens before it. "
           "0: to all earlier tokens.")
      .add("layer_pattern", &M::layer_pattern, any(),
           "Kind of attention of the layers, one letter each, repeated to `layers`. `f`: full attention. "
           "`w`: in the `window`. `n`: full attention without rotary positions, as in SmolLM3. Empty: `w` "
           "with a `window`, else `f`.")
      .add("condition_width", &M::condition_width, count_from(0),
           "Width of the vectors that a UNet's attention reads as condition; there are `seq_len` of them. 0: "
           "taken from `size`; without `size`, no condition.")
      .add(
          "projection", &M::projection, one_of({"", "conv", "linear"}),
          "Layers before and behind the attention to a condition: 1 x 1 convolutions or linear layers, which "
          "differ in the shapes of their tensors. Empty: taken from `size`; without `size`, `conv`.")
      .add("style", &M::style, one_of({"", "ddpm", "latent"}),
           "`ddpm`: as Ho et al. 2020; time embeddings begin with sines, and convolutions with stride 2 pad "
           "on "
           "the right and below only. `latent`: as Stable Diffusion and the defaults of diffusers; cosines "
           "first, padding on all sides. Empty: taken from `size`; without `size`, `latent`.")
      .add("norm_groups", &M::norm_groups, count_from(0),
           "Groups of every group norm; must divide all `widths`. 0: taken from `size`; without `size`, 32.")
      .add("pool", &M::pool, one_of({"class", "mean"}),
           "Input of the classification layer: the class token, or the mean of all tokens.")
      .add("norm_epsilon", &M::norm_epsilon, at_least(0),
           "Added to the variance in every norm (UNets: in group norms). 0: as published, 1e-5 in `gpt` and "
           "`llama`, 1e-12 in `bert` "
           "and "
           "1e-6 in `vit`.")
      .add("stochastic_depth", &M::stochastic_depth, from_to_below(0, 1),
           "Probability in training that a sample skips a residual branch of the last layer. In earlier "
           "layers it falls linearly, to 0 at the first layer.")
      .add("rope_theta", &M::rope_theta, at_least(0),
           "Base of the rotary positions. The slowest pair of a head turns once in about 2 pi `rope_theta` "
           "tokens. 0: taken from `size`; without `size`, 10000.")
      .add("rope_factor", &M::rope_factor, at_least(0),
           "Context extension: slow pairs turn slower by this factor. 1: none. 0: taken from `size`; without "
           "`size`, 1.")
      .add("rope_scaling", &M::rope_scaling,
           "Kind of the extension. `llama3`: as in Llama 3.1. `linear`: all pairs turn slower (Chen et al. "
           "2023). `yarn`: Peng et al. 2023.")
      .add("rope_freq_factors", &M::rope_freq_factors, above(0),
           "Bounds of the extension, in turns within `rope_original_context` tokens. Pairs with fewer turns "
           "than the first are slowed by the whole factor, pairs with more turns than the second not at all. "
           "Between the two bounds the speed is interpolated. YaRN's are 1 and 32. `linear` has no bounds.")
      .add("rope_attention_factor", &M::rope_attention_factor, at_least(0),
           "Factor of queries and of keys. 0: 0.1 ln(`rope_factor`) + 1 for `yarn`, else 1.")
      .add("rope_local_theta", &M::rope_local_theta, at_least(0),
           "Base of the rotary positions of layers with a window, which then have no extension, as in Gemma "
           "3. 0: as in other layers.")
      .add("rope_original_context", &M::rope_original_context, count_from(1),
           "Context in tokens before the extension.")
      .add("dropout", &M::dropout, from_to_below(0, 1), "Probability of dropping an activation.")
      .add("tensor_chunks", &M::tensor_chunks, from_to(1, 64),
           "Number of groups in which the sums over features of every layer's attention and MLP are "
           "computed, and in GPTs and Llamas the sums over the vocabulary, if it is divisible. Groups are "
           "added in one binary tree. `parallel.tensor` ranks share the groups; the number of ranks must "
           "divide the groups and `heads` (`llama`: `kv_heads`). Above 1, `heads` must be even. A power of "
           "two that divides `hidden` and `ffn`. It determines the last bits of the results, like "
           "`train.micro_batch`, and cannot change during a training.")
      .add(
          "loss_parts", &M::loss_parts, count_from(1),
          "Parts of the rows of a micro-batch's logits that the head computes one after the other, with "
          "their "
          "loss and gradients, so that only one part of the logits is in memory. The gradients of the output "
          "layer are then kept in fp32 from forward to backward. Needs an unsplit vocabulary: "
          "`tensor_chunks` = 1, or a vocabulary that it does not divide. It determines the last bits of the "
          "results, like `train.micro_batch`, and cannot change during a training.")
      .add_boolean_or_auto("tied", &M::tied,
                           "The output layer shares the token embedding. `auto`: as published; without "
                           "`size`, true for `gpt` and false for `llama` and `lstm`.")
      .add("bias", &M::bias, only(true, "GPTs always have them, Llamas only those of qkv_bias"),
           "Linear layers and norms have biases.");
  for (ConfigKey& key : keys) {
    KeyScope scope = for_families_with(key.name);
    if (!scope.text.empty()) key.scopes.push_back(std::move(scope));  // an empty scope means every family
  }
}

}  // namespace trireme
