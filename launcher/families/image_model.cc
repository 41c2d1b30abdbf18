#include "launcher/families/image_model.h"

#include "launcher/families/tensor_chunks.h"
#include "runtime/base/error.h"
#include "runtime/data/open_images.h"

namespace trireme {

std::int64_t default_classes(const JobConfig& config, std::int64_t published) {
  const bool new_head = config.model.init_from.empty() || config.model.new_head;
  if (config.data.kind != DataKind::kImages || !new_head) return published;
  const std::int64_t found = count_class_folders(config.data.train);
  return found > 1 ? found : published;
}

void check_image_shape(const ModelSection& model, const PublishedShape& published) {
  TRIREME_CHECK(!model.size.empty() || (model.layers > 0 && model.hidden > 0 && model.heads > 0),
                "the model has no shape: give model.size, or all of model.layers = {}, model.hidden = {} and "
                "model.heads = {}",
                model.layers, model.hidden, model.heads);
  const std::int64_t hidden = model.hidden > 0 ? model.hidden : published.hidden;
  const std::int64_t heads = model.heads > 0 ? model.heads : published.heads;
  TRIREME_CHECK(hidden % heads == 0, "model.heads = {} does not divide model.hidden = {}", heads, hidden);
  check_tensor_chunks(model, {"heads", heads}, {"hidden", hidden});
}

void fill_in_image_size(JobConfig& config, std::int64_t published) {
  std::int64_t &model = config.model.image_size, &data = config.data.image_size;
  if (model == 0) model = data > 0 ? data : published;
  if (data == 0) data = model;
  TRIREME_CHECK(data == model,
                "data.image_size = {} is not model.image_size = {}: the model has positions for images of "
                "one size only; set one of the two keys, or both to the same value",
                data, model);
}

std::string image_transformer_text(const ModelSection& model) {
  return fmt::format("{} layers, {} wide, {} heads, MLP {}, {} classes{}", model.layers, model.hidden,
                     model.heads, model.ffn, model.classes, layer_chunks_text(model));
}

}  // namespace trireme
