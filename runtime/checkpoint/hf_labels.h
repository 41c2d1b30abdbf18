// The classes of a model in config.json: num_labels, id2label and label2id.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/hf_config.h"

namespace trireme {

struct HfLabels {
  std::int64_t count = 0;          // 0: config.json does not say; transformers makes two then
  std::vector<std::string> names;  // by label; empty: not known, as where all are LABEL_0, LABEL_1, ...
};

/// What transformers counts for a classifier whose config.json has no labels.
inline constexpr std::int64_t kDefaultHfLabels = 2;

/// Throws Error(kInvalidInput) where the keys contradict each other, where id2label does not number its
/// entries from 0 on, and for a name that is no text.
HfLabels read_labels(const HfConfig& config);

/// read_labels() of a model that classifies. Throws Error(kUnsupported) for a regression, and for several
/// labels a sample.
HfLabels read_classes(const HfConfig& config);

/// Sets id2label and label2id for `count` classes. Classes beyond `names` become LABEL_i.
void set_labels(nlohmann::ordered_json& config, std::int64_t count, const std::vector<std::string>& names);

}  // namespace trireme
