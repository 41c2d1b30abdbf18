// Objects of pictures: boxes with a class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/image.h"
#include "runtime/data/resample.h"

namespace trireme {

/// An annotated object.
struct LabelledBox {
  ImageBox box;            // in pixels of the stored picture; may extend beyond it
  std::int32_t label = 0;  // from 0
  bool is_crowd = false;   // stands for several objects: not a training target, and may match any number
  double area = 0;         // of the object, in pixels; for the size classes of an evaluation
};

/// A predicted object.
struct Detection {
  ImageBox box;  // in pixels of the stored picture
  std::int32_t label = 0;
  double score = 0;
};

struct LabelledPicture {
  std::int64_t id = 0;
  std::string file;  // below the folder of pictures
  ImageSize size;    // as the annotations state it; 0 x 0: not stated
  std::vector<LabelledBox> boxes;
};

/// The annotations of a set, in order of the pictures' ids.
struct LabelledPictures {
  std::vector<std::string> class_names;    // by label
  std::vector<std::int64_t> category_ids;  // by label, ascending: the ids that COCO's files use for classes
  std::vector<LabelledPicture> pictures;
};

/// Intersection over union of two boxes; over the area of `box` if `crowd`, as COCO does. 0 for disjoint
/// boxes.
double box_overlap(const ImageBox& box, const ImageBox& other, bool crowd = false);

}  // namespace trireme
