// The result of an evaluation of a detector: COCO's table and JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/data/detection/average_precision.h"

namespace trireme {

/// The twelve figures of COCO, then the AP of each class. `names` of classes may be empty. A figure without
/// objects is "-".
std::string to_text(const DetectionScores& scores, const std::vector<std::string>& names);

/// {"ap", "ap50", ..., "ar_large", "class_ap": [{"name", "ap"}]}; null without objects.
nlohmann::ordered_json to_json(const DetectionScores& scores, const std::vector<std::string>& names);

}  // namespace trireme
