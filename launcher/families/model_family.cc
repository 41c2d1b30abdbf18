#include "launcher/families/model_family.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {

extern const ModelFamily kBertFamily, kCctFamily, kGptFamily, kLlamaFamily, kLstmFamily, kResNetFamily,
    kUnetFamily, kVitFamily, kYoloxFamily;

std::span<const ModelFamily* const> model_families() {
  static constexpr const ModelFamily* kFamilies[] = {&kGptFamily,  &kLlamaFamily,  &kBertFamily,
                                                     &kLstmFamily, &kResNetFamily, &kVitFamily,
                                                     &kCctFamily,  &kUnetFamily,   &kYoloxFamily};
  return kFamilies;
}

bool counts_classes(const ModelSection& model) {
  return family_of(model).has_class_logits || model.task == ModelTask::kClassify;
}

const ModelFamily& family_of(const ModelSection& model) {
  for (const ModelFamily* family : model_families()) {
    if (std::ranges::find(family->names, model.name) != family->names.end()) return *family;
  }
  throw Error(ErrorCode::kInvalidInput, "model.name = \"{}\" is not known", model.name);
}

}  // namespace trireme
