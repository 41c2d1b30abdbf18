#include "runtime/data/detection/labelled_box.h"

#include <algorithm>

namespace trireme {

double box_overlap(const ImageBox& box, const ImageBox& other, bool crowd) {
  const double width = std::min(box.x + box.width, other.x + other.width) - std::max(box.x, other.x);
  const double height = std::min(box.y + box.height, other.y + other.height) - std::max(box.y, other.y);
  if (width <= 0 || height <= 0) return 0;
  const double shared = width * height, area = box.width * box.height;
  return shared / (crowd ? area : area + other.width * other.height - shared);
}

}  // namespace trireme
