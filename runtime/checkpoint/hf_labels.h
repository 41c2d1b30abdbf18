// The classes of a model in config.json: num_labels, id2label and label2id.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/hf_config.h"

namespace trireme {

struct HfLabels {
  std::int64_t count = 0;          // 0: not in config.json; transformers uses two then
  std::vector<std::string> names;  // by label; empty: unknown, also if all are LABEL_0, LABEL_1, ...
};

/// Number of classes that transformers assumes for a classifier without labels in config.json.
inline constexpr std::int64_t kDefaultHfLabels = 2;

/// Throws Error(kInvalidInput) if the keys contradict each other, if id2label does not number its entries
/// from 0, or if a name is not a string.
HfLabels read_labels(const HfConfig& config);

/// read_labels() for a classifier. Throws Error(kUnsupported) for regression and for multi-label
/// classification.
HfLabels read_classes(const HfConfig& config);

/// Sets id2label and label2id for `count` classes. Classes beyond `names` are named LABEL_i.
void set_labels(nlohmann::ordered_json& config, std::int64_t count, const std::vector<std::string>& names);

}  // namespace trireme
