#include "parallel/layout/tensor_place.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {

int place_of(const ParamGroup& group, int places) {
  return group.chunk < 0 ? 0 : group.chunk * places / group.chunks;
}

ModelLayout for_place(ModelLayout layout, const TensorPlace& place) {
  if (place.places == 1) return layout;
  bool has_chunks = false;
  for (const ParamGroup& group : layout.groups) {
    if (group.chunk < 0) continue;
    has_chunks = true;
    TRIREME_CHECK(group.chunks % place.places == 0,
                  "Layout::tensor = {} ranks cannot share the {} tensor chunks of '{}' equally: use a power "
                  "of two up to {}",
                  place.places, group.chunks, group.name, group.chunks);
  }
  TRIREME_CHECK(has_chunks,
                "Layout::tensor = {}: the model has one tensor chunk, and nothing that ranks could share; "
                "transformers can be built with {} chunks or more",
                place.places, place.places);
  const auto is_elsewhere = [&](int g) {
    const ParamGroup& group = layout.groups[static_cast<std::size_t>(g)];
    return group.chunk >= 0 && place_of(group, place.places) != place.place;
  };
  for (std::vector<int>& groups : layout.unit_groups) std::erase_if(groups, is_elsewhere);
  for (std::vector<int>& buckets : layout.unit_buckets) {
    std::erase_if(buckets, [&](int bucket) {
      return is_elsewhere(layout.buckets[static_cast<std::size_t>(bucket)].group);
    });
  }
  return layout;
}

}  // namespace trireme
