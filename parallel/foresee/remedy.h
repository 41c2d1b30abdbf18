// Changes to a job that needs too much memory: fields and values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/foresee/predict.h"

namespace trireme {

/// A field of PlannedJob, or of its EngineOptions.
enum class Field : std::uint8_t {
  kDataCacheBytes,
  kZero,
  kAccumulateUnsharded,
  kKeepGathered,
  kRecomputeEvery,
  kSequence,
  kTensor,
  kMicroBatch,
  kNumRanks,
};

/// "zero", "recompute_every".
std::string_view name(Field field);

struct Change {
  Field field = Field::kZero;
  std::int64_t value = 0;  // to set it to; of flags 0 and 1
  bool operator==(const Change&) const = default;
};

/// "zero = 2", "keep_gathered = false", "8 ranks".
std::string to_text(const Change& change);
/// "zero = 3, recompute_every = 2 and 8 ranks".
std::string to_text(const std::vector<Change>& changes);

/// The value of a change to it: "2", "false".
std::string value_text(const Change& change);
/// "a, b and c".
std::string listed(const std::vector<std::string>& parts);

/// The changes that make `to` of `from`, in the order of Field.
std::vector<Change> changes_between(const PlannedJob& from, const PlannedJob& to);

/// Changes that would reduce a category of memory, with values that a job does not have yet.
struct MemoryAdvice {
  MemoryCategory category{};
  std::int64_t bytes = 0;
  std::vector<Change> changes;  // any of them
};

/// For the largest categories of `needed`, largest first: without a search, for an allocation that failed.
/// Categories below a tenth of the whole, and those that follow from others, are left out.
std::vector<MemoryAdvice> advise(const MemoryCounts& needed, const EngineOptions& options);

}  // namespace trireme
