#include "parallel/layout/stage_map.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

void check_counts(const StageMap::Even& cut) {
  TRIREME_CHECK(cut.pipeline >= 1, "parallel.pipeline = {} must be 1 or more", cut.pipeline);
  TRIREME_CHECK(cut.chunks >= 1, "parallel.chunks = {} must be 1 or more", cut.chunks);
  TRIREME_CHECK(cut.pipeline * cut.chunks <= cut.num_units,
                "parallel.pipeline = {} stages of parallel.chunks = {} want {} blocks or more, the model has "
                "{}: a stage holds at least one",
                cut.pipeline, cut.chunks, cut.pipeline * cut.chunks, cut.num_units);
}

}  // namespace

StageMap StageMap::even(const Even& cut) {
  check_counts(cut);
  const int chunks = cut.pipeline * cut.chunks;
  StageMap map{.pipeline = cut.pipeline, .bounds = {0}};
  for (int c = 0; c < chunks; ++c) {
    map.bounds.push_back(map.bounds.back() + cut.num_units / chunks + (c < cut.num_units % chunks ? 1 : 0));
  }
  return map;
}

StageMap StageMap::given(const Even& cut, const std::vector<int>& first_units) {
  StageMap map{.pipeline = cut.pipeline, .bounds = {0}};
  map.bounds.insert(map.bounds.end(), first_units.begin(), first_units.end());
  map.bounds.push_back(cut.num_units);
  map.check(cut);
  return map;
}

int StageMap::chunk_of(int unit) const {
  return static_cast<int>(std::ranges::upper_bound(bounds, unit) - bounds.begin()) - 1;
}

void StageMap::check(const Even& cut) const {
  check_counts(cut);
  const std::vector<int> first_units(bounds.begin() + 1, bounds.end() - 1);
  TRIREME_CHECK(
      num_chunks() == cut.pipeline * cut.chunks,
      "parallel.pipeline_cut = [{}] makes {} stages, parallel.pipeline x parallel.chunks = {} x {}: it lists "
      "the first block of every stage but the first, so {} numbers",
      fmt::join(first_units, ", "), num_chunks(), cut.pipeline, cut.chunks, cut.pipeline * cut.chunks - 1);
  for (std::size_t c = 0; c + 1 < bounds.size(); ++c) {
    TRIREME_CHECK(bounds[c] < bounds[c + 1],
                  "parallel.pipeline_cut = [{}] must ascend from 1 or more to at most {}, the last block",
                  fmt::join(first_units, ", "), cut.num_units - 1);
  }
}

}  // namespace trireme
