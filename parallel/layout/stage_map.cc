#include "parallel/layout/stage_map.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

void check_counts(const StageCounts& counts) {
  TRIREME_CHECK(counts.pipeline >= 1, "Layout::pipeline = {} must be 1 or more", counts.pipeline);
  TRIREME_CHECK(counts.chunks >= 1, "Layout::chunks = {} must be 1 or more", counts.chunks);
  TRIREME_CHECK(counts.pipeline * counts.chunks <= counts.num_units,
                "Layout::pipeline = {} of Layout::chunks = {} want {} blocks "
                "or more, the model has {}: a stage holds at least one",
                counts.pipeline, counts.chunks, counts.pipeline * counts.chunks, counts.num_units);
}

}  // namespace

StageMap StageMap::even(const StageCounts& counts) {
  check_counts(counts);
  const int chunks = counts.pipeline * counts.chunks;
  StageMap map{.pipeline = counts.pipeline, .bounds = {0}};
  for (int c = 0; c < chunks; ++c) {
    map.bounds.push_back(map.bounds.back() + counts.num_units / chunks +
                         (c < counts.num_units % chunks ? 1 : 0));
  }
  return map;
}

StageMap StageMap::given(const StageCounts& counts, const std::vector<int>& first_units) {
  StageMap map{.pipeline = counts.pipeline, .bounds = {0}};
  map.bounds.insert(map.bounds.end(), first_units.begin(), first_units.end());
  map.bounds.push_back(counts.num_units);
  map.check(counts);
  return map;
}

int StageMap::chunk_of(int unit) const {
  return static_cast<int>(std::ranges::upper_bound(bounds, unit) - bounds.begin()) - 1;
}

void StageMap::check(const StageCounts& counts) const {
  check_counts(counts);
  TRIREME_CHECK(num_chunks() == counts.pipeline * counts.chunks,
                "Layout::cut = [{}] makes {} stages, Layout::pipeline x "
                "Layout::chunks = {} x {}: it lists the first block of every stage but the "
                "first, so {} numbers",
                fmt::join(first_units(), ", "), num_chunks(), counts.pipeline, counts.chunks,
                counts.pipeline * counts.chunks - 1);
  for (std::size_t c = 0; c + 1 < bounds.size(); ++c) {
    TRIREME_CHECK(bounds[c] < bounds[c + 1],
                  "Layout::cut = [{}] must ascend from 1 or more to at most {}, the last block",
                  fmt::join(first_units(), ", "), counts.num_units - 1);
  }
}

}  // namespace trireme
