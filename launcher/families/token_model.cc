#include "launcher/families/token_model.h"

#include "runtime/base/error.h"

namespace trireme {

void check_has_shape(const ModelSection& model) {
  TRIREME_CHECK(
      !model.size.empty() || (model.layers > 0 && model.hidden > 0 && model.heads > 0 && model.seq_len > 0),
      "the model has no shape: give model.size, or all of model.layers = {}, model.hidden = {}, "
      "model.heads = {} and model.seq_len = {}",
      model.layers, model.hidden, model.heads, model.seq_len);
}

std::string tied_variant(const ModelSection& model) {
  return *model.tied ? ", tied" : ", untied";
}

}  // namespace trireme
