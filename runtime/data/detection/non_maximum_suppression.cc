#include "runtime/data/detection/non_maximum_suppression.h"

#include <algorithm>
#include <utility>

namespace trireme {

std::vector<Detection> suppress_non_maxima(std::vector<Detection> detections,
                                           const SuppressionOptions& options) {
  std::erase_if(detections, [&](const Detection& found) { return !(found.score >= options.min_score); });
  std::ranges::stable_sort(detections, std::ranges::greater(), &Detection::score);
  std::vector<Detection> kept;
  const auto limit = static_cast<std::size_t>(std::max(options.max_detections, 0));
  for (const Detection& found : detections) {
    if (kept.size() == limit) break;
    const bool is_suppressed = std::ranges::any_of(kept, [&](const Detection& better) {
      return better.label == found.label && box_overlap(better.box, found.box) > options.max_overlap;
    });
    if (!is_suppressed) kept.push_back(found);
  }
  return kept;
}

}  // namespace trireme
