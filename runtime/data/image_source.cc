#include "runtime/data/image_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "runtime/base/error.h"

namespace trireme {
namespace {

/// "'cat', 'dog' and 3 more"
std::string list_some(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  const std::size_t shown = std::min(names.size(), kShown);
  std::string text = fmt::format("'{}'", fmt::join(std::span(names).first(shown), "', '"));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::vector<std::string> missing_from(const std::vector<std::string>& these,
                                      const std::vector<std::string>& those) {
  std::vector<std::string> missing;
  std::ranges::set_difference(these, those, std::back_inserter(missing));
  return missing;
}

}  // namespace

ImageSource::LargestLabel ImageSource::largest_label() const {
  LargestLabel largest;
  for (std::int64_t i = 0; i < num_images(); ++i) {
    if (label(i) > largest.label) largest = {label(i), i};
  }
  return largest;
}

void check_labels(const ImageSource& source, std::int64_t num_classes) {
  const auto named = static_cast<std::int64_t>(source.class_names().size());
  TRIREME_CHECK(named == 0 || named == num_classes,
                "{} has {} classes ({}), the model has {}: set model.classes = {}", source.fingerprint(),
                named, list_some(source.class_names()), num_classes, named);
  const auto largest = source.largest_label();
  TRIREME_CHECK(largest.label < num_classes,
                "{} has the label {}, the model's classes are 0 to {}: set model.classes to {} or more",
                source.name(largest.index), largest.label, num_classes - 1, largest.label + 1);
}

void check_same_classes(const ImageSource& train, const ImageSource& eval) {
  const auto &ours = train.class_names(), &theirs = eval.class_names();
  if (ours.empty() || theirs.empty() || ours == theirs) return;
  const auto only_train = missing_from(ours, theirs), only_eval = missing_from(theirs, ours);
  std::string text = "the classes of training and evaluation differ: ";
  if (!only_train.empty()) text += list_some(only_train) + " only in training";
  if (!only_train.empty() && !only_eval.empty()) text += ", ";
  if (!only_eval.empty()) text += list_some(only_eval) + " only in evaluation";
  throw Error(ErrorCode::kInvalidInput, text);
}

}  // namespace trireme
