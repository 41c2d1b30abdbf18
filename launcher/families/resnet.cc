// Residual networks for ImageNet's and CIFAR's images.
#include "models/resnet.h"

#include "launcher/data/image_data.h"
#include "launcher/families/image_model.h"
#include "launcher/families/model_family.h"

namespace trireme {
namespace {

constexpr std::string_view kKeys[] = {"classes", "new_head", "label_smoothing"};

void fill_in(JobConfig& config) {
  const ResNetConfig published = *find_resnet_config(config.model.name);
  if (config.model.classes == 0) config.model.classes = default_classes(config, published.classes);
  if (config.data.image_size == 0) {
    config.data.image_size = published.stem == ResNetConfig::Stem::kCifar ? 32 : 224;
  }
}

BlockList build(const ModelSection& model) {
  ResNetConfig resnet = *find_resnet_config(model.name);
  resnet.classes = model.classes;
  resnet.label_smoothing = static_cast<float>(model.label_smoothing);
  return build_resnet(resnet);
}

std::string describe(const JobConfig& config) {
  return fmt::format("{} classes, images of {} x {}", config.model.classes, config.data.image_size,
                     config.data.image_size);
}

}  // namespace

extern constexpr ModelFamily kResNetFamily{.plural = "ResNets",
                                           .names = kResNetNames,
                                           .keys = kKeys,
                                           .data = kImageData,
                                           .has_class_logits = true,
                                           .class_head = "fc.",
                                           .class_layer = "fc.",
                                           .check = [](const ModelSection&) {},
                                           .fill_in = fill_in,
                                           .build = build,
                                           .describe = describe,
                                           .variant = [](const ModelSection&) { return std::string(); }};

}  // namespace trireme
