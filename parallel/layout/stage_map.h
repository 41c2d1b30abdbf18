// Maps the units of a model to stages along the pipeline axis.
//
// The units are cut into pipeline * v chunks of neighbours; chunk c runs on pipeline rank c % pipeline. With
// v > 1 a rank holds several chunks that are far apart in the model.
#pragma once

#include <vector>

namespace trireme {

struct StageCounts {
  int num_units = 1, pipeline = 1, chunks = 1;  // chunks per pipeline rank
};

struct StageMap {
  int pipeline = 1;
  std::vector<int> bounds;  // chunk c holds units [bounds[c], bounds[c + 1])

  /// All units in one chunk.
  static StageMap whole(int num_units) { return {.pipeline = 1, .bounds = {0, num_units}}; }
  /// Chunks of equal numbers of units; if they do not divide, the first chunks have one more. Throws as
  /// check() does.
  static StageMap even(const StageCounts& counts);
  /// `first_units`: the first unit of each chunk but the first. Throws as check() does.
  static StageMap given(const StageCounts& counts, const std::vector<int>& first_units);

  int num_chunks() const { return static_cast<int>(bounds.size()) - 1; }
  int num_units() const { return bounds.back(); }
  int first_unit(int chunk) const { return bounds[static_cast<std::size_t>(chunk)]; }
  int end_unit(int chunk) const { return bounds[static_cast<std::size_t>(chunk) + 1]; }
  int chunk_of(int unit) const;
  /// The first unit of every chunk but the first, as given() takes them.
  std::vector<int> first_units() const { return {bounds.begin() + 1, bounds.end() - 1}; }
  /// The pipeline rank of a chunk, and of a unit.
  int stage_of_chunk(int chunk) const { return chunk % pipeline; }
  int stage_of(int unit) const { return stage_of_chunk(chunk_of(unit)); }
  bool operator==(const StageMap&) const = default;

  /// Throws Error(kInvalidInput), naming the field, unless every chunk has at least one unit and the bounds
  /// ascend from 0 to the number of units.
  void check(const StageCounts& counts) const;
};

/// `user` uses a parameter that `owner`, a unit of another stage, declares. See [Note: tied over stages].
struct TiedUnits {
  int owner = 0;
  int user = 0;
  bool operator==(const TiedUnits&) const = default;
};

}  // namespace trireme
