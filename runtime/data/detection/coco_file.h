// COCO's annotation files for detection: instances_*.json.
#pragma once

#include <filesystem>

#include "runtime/data/detection/labelled_box.h"

namespace trireme {

/// Reads "images", "annotations" and "categories". Labels are the positions of the category ids in ascending
/// order, so ids may have holes. Boxes are kept as they stand: outside of their picture, empty, or of a
/// crowd. A missing "iscrowd" is 0, and a missing "area" is the area of the box. Throws Error(kInvalidInput)
/// with the file, the record and the remedy: no images or categories, a missing or repeated id, an annotation
/// without its image or category, a box that does not have four finite numbers or has a negative side.
LabelledPictures read_coco_file(const std::filesystem::path& file);

}  // namespace trireme
