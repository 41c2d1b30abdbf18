// The keys of [model].
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
           "Architecture. `resnet20`, `resnet56` and `cct` are those for CIFAR's small images.")
      .add(
          "from", &M::from, empty_or_after("hf:", "FOLDER"),
          "A folder of Hugging Face's transformers whose config.json gives `name` and the shape, in place of "
          "`size`; keys that are given go before it. Contexts of more than 2048 tokens without a table of "
          "positions are cut to 2048. Weights are taken with `init_from`.")
      .add(
          "init_from", &M::init_from, any(),
          "What the parameters, and running statistics, start from: a safetensors file of this model's names "
          "and shapes, in fp32, for ResNets and ViTs those of torchvision; a checkpoint or the output folder "
          "of a run; or for GPTs, Llamas, BERTs and ViTs a folder of "
          "Hugging "
          "Face's transformers, also of several shards, in fp32, fp16 or bf16. Empty: drawn from "
          "`train.seed`. "
          "A run that goes on from a checkpoint does not read it.")
      .add("new_head", &M::new_head, any(),
           "The layer that makes classes starts from `train.seed` although `init_from` has one: fine-tuning "
           "for other classes. With `init_from`; for images, and for documents with `task` = classify. "
           "Without "
           "it, classes that have names in the data and in `init_from` are matched by name.")
      .add("task", &M::task,
           "`mlm`: masked language modelling. `classify`: a class for each document, of `data.kind` = "
           "documents, "
           "with a head of its own: `init_from` takes the encoder then, also of a model of the other task.")
      .add("classes", &M::classes, count_from(0),
           "Classes of the images, or of documents with `task` = classify. 0: those of `from`; without it, "
           "those "
           "that the network was published for, 1000 or 10, or those of the documents.")
      .add("label_smoothing", &M::label_smoothing, from_to_below(0, 1),
           "Part of a label that is spread over all classes, in training.")
      .add("size", &M::size, one_of(all_of(&ModelFamily::sizes, {""})),
           "A published shape: of `gpt` 124m to 13b (GPT-2 and GPT-3), of `llama` 15m (for CPUs), 1b and 3b "
           "(3.2), "
           "8b (3.1), of `bert` tiny, base and large, of `vit` ti, s, b, l and h, of `cct` "
           "layers/kernelxconvs. "
           "The keys below override parts of it. Empty: the keys below give the shape.")
      .add("layers", &M::layers, count_from(0), "Transformer blocks. 0: taken from `size`.")
      .add("hidden", &M::hidden, count_from(0), "Width of the residual stream. 0: taken from `size`.")
      .add("heads", &M::heads, count_from(0), "Attention heads; must divide `hidden`. 0: taken from `size`.")
      .add("kv_heads", &M::kv_heads, count_from(0),
           "Heads of keys and values, each read by as many query heads (grouped queries); must divide "
           "`heads`. 0: "
           "taken from `size`; without one, `heads`.")
      .add(
          "ffn", &M::ffn, count_from(0),
          "Width of the MLP. 0: taken from `size`; without one, of `llama` 8/3 of `hidden`, up to a multiple "
          "of 64, of `vit` 4 times `hidden`, of `cct` `hidden`.")
      .add("vocab", &M::vocab, count_from(0),
           "Tokens in the vocabulary. 0: taken from `size`; without one, from the training data's tokenizer, "
           "of `bert` with one more for masks.")
      .add("seq_len", &M::seq_len, count_from(0), "Context in tokens. 0: taken from `size`.")
      .add(
          "image_size", &M::image_size, from_to(0, 4096),
          "Side of the images that positions are learned for, in pixels. 0: `data.image_size`, which must be "
          "the same.")
      .add(
          "patch", &M::patch, from_to(0, 4096),
          "Side of the patches that become tokens, in pixels; must divide the image. 0: as published, 16, of "
          "size h 14.")
      .add(
          "convs", &M::convs, from_to(0, 16),
          "Convolutions of 3 x 3 that make tokens, each with a max pool that halves the image. 0: taken from "
          "`size`; without one, 2.")
      .add("pool", &M::pool, one_of({"class", "mean"}),
           "What the classes are read from: a class token before the patches, or the mean of all tokens.")
      .add("norm_epsilon", &M::norm_epsilon, at_least(0),
           "Added to the variance in every norm. 0: as published, 1e-6.")
      .add("stochastic_depth", &M::stochastic_depth, from_to_below(0, 1),
           "Probability that a sample leaves a residual branch of the last layer out, in training; that of "
           "earlier layers falls evenly to 0 at the first.")
      .add("rope_theta", &M::rope_theta, at_least(0),
           "Base of the rotary positions: the slowest pair of a head turns about once in 2 pi `rope_theta` "
           "tokens. 0: "
           "taken from `size`; without one, 10000.")
      .add("rope_factor", &M::rope_factor, at_least(0),
           "Llama 3.1's stretching of the context: what turns slowly turns so many times slower. 1: none. 0: "
           "taken from `size`; without one, 1.")
      .add("rope_freq_factors", &M::rope_freq_factors, above(0),
           "Bounds of that: pairs are slowed down wholly that turn less than the first in "
           "`rope_original_context`, and not at all that turn more than the second.")
      .add("rope_original_context", &M::rope_original_context, count_from(1),
           "Context in tokens before it was stretched.")
      .add("dropout", &M::dropout, from_to_below(0, 1), "Probability of dropping an activation.")
      .add("tensor_chunks", &M::tensor_chunks, from_to(1, 64),
           "Groups that the sums over features of every layer's attention and MLP are made in, and of "
           "GPTs and Llamas those over the vocabulary where they divide it; groups are added in one binary "
           "tree. `parallel.tensor` ranks share them, as far as both divide `heads` (of `llama` "
           "`kv_heads`), which are even. A power of two that divides `hidden` and `ffn`. It decides the "
           "last bits of the results, like `train.micro_batch`, and is kept for the whole of a training.")
      .add_boolean_or_auto(
          "tied", &M::tied,
          "The output layer shares the token embedding. `auto`: as published, without `size` of `gpt` "
          "true, of `llama` false.")
      .add("bias", &M::bias, only(true, "GPTs always have them, Llamas never"),
           "Linear layers and norms have biases.");
  for (ConfigKey& key : keys) {
    KeyScope scope = for_families_with(key.name);
    if (!scope.text.empty()) key.scopes.push_back(std::move(scope));  // an empty scope means every family
  }
}

}  // namespace trireme
