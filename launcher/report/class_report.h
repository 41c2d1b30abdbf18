// The result of an evaluation by class: a table, JSON, and a picture of the confusion matrix.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/observe/confusion_matrix.h"

namespace trireme {

struct ClassReport {
  ConfusionMatrix matrix;
  std::vector<std::string> names;  // by class; empty: unknown

  /// The name of a class; without names, its number.
  std::string name(std::int64_t label) const;
};

/// One line per class: samples, accuracy (recall), precision, and the class it is most often taken for.
std::string to_text(const ClassReport& report);

/// {"classes": [{"name", "samples", "correct", "predicted"}], "confused": [[target, predicted, count], ...]}.
/// `confused` has the wrong predictions, the most frequent first.
nlohmann::ordered_json to_json(const ClassReport& report);

/// An SVG document. Rows are the classes of the samples, columns the predicted classes; shades are shares of
/// a row. Cells have their count as a tooltip, and as a number where there is room.
std::string to_svg(const ClassReport& report);

}  // namespace trireme
