#include "runtime/data/image_source.h"

#include <fmt/core.h>

#include "runtime/base/error.h"
#include "runtime/data/class_names.h"

namespace trireme {

ImageSource::LargestLabel ImageSource::largest_label() const {
  LargestLabel largest;
  for (std::int64_t i = 0; i < num_images(); ++i) {
    if (label(i) > largest.label) largest = {label(i), i};
  }
  return largest;
}

void check_labels(const ImageSource& source, std::int64_t num_classes, std::string_view field,
                  std::int64_t num_other) {
  const auto named = static_cast<std::int64_t>(source.class_names().size());
  const std::string other =
      num_other > 0 ? fmt::format(" and {} for samples without a class", num_other) : "";
  TRIREME_CHECK(named == 0 || named == num_classes, "{} has {} classes ({}), the model has {}{}: set {} = {}",
                source.fingerprint().contents, named, list_some(source.class_names()), num_classes, other,
                field, named + num_other);
  const auto largest = source.largest_label();
  TRIREME_CHECK(
      largest.label < num_classes,
      "{} has the label {}, the model's classes are 0 to {}: if the label is right, set {} to {} or more",
      source.name(largest.index), largest.label, num_classes - 1, field, largest.label + 1 + num_other);
}

}  // namespace trireme
