#include "launcher/families/token_model.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace trireme {

void check_has_shape(const ModelSection& model) {
  TRIREME_CHECK(
      !model.size.empty() || (model.layers > 0 && model.hidden > 0 && model.heads > 0 && model.seq_len > 0),
      "the model has no shape: give model.size, or all of model.layers = {}, model.hidden = {}, "
      "model.heads = {} and model.seq_len = {}",
      model.layers, model.hidden, model.heads, model.seq_len);
}

std::string chunks_text(const ModelSection& model) {
  const std::int64_t chunks = model.tensor_chunks;
  if (chunks == 1) return "";
  std::string text = fmt::format(", {} tensor chunks", chunks);
  if (model.vocab % chunks != 0) {
    text += fmt::format(
        " of the layers alone (they do not divide the vocabulary, so every tensor rank has all of it; "
        "model.vocab = {} would be cut)",
        (model.vocab + chunks - 1) / chunks * chunks);
  }
  return text;
}

void check_loss_parts(const ModelSection& model) {
  const bool is_split = model.tensor_chunks > 1 && model.vocab % model.tensor_chunks == 0;
  TRIREME_CHECK(
      model.loss_parts == 1 || !is_split,
      "model.loss_parts = {} does not go with model.tensor_chunks = {}, which splits model.vocab = {}: "
      "set one of them to 1",
      model.loss_parts, model.tensor_chunks, model.vocab);
}

std::string tied_variant(const ModelSection& model) {
  std::string text = *model.tied ? ", tied" : ", untied";
  if (model.loss_parts > 1) text += fmt::format(", {} loss parts", model.loss_parts);
  return text;
}

}  // namespace trireme
