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
  std::int64_t value = 0;  // the new value; 0 or 1 for flags
  bool operator==(const Change&) const = default;
};

/// "zero = 2", "keep_gathered = false", "8 ranks".
std::string to_text(const Change& change);
/// "zero = 3, recompute_every = 2 and 8 ranks".
std::string to_text(const std::vector<Change>& changes);

/// The value as text: "2", "false".
std::string value_text(const Change& change);
/// "a, b and c".
std::string listed(const std::vector<std::string>& parts);

/// The changes that turn `from` into `to`, in the order of Field.
std::vector<Change> changes_between(const PlannedJob& from, const PlannedJob& to);

/// Changes that would reduce a category of memory. Their values differ from the job's.
struct MemoryAdvice {
  MemoryCategory category{};
  std::int64_t bytes = 0;
  std::vector<Change> changes;  // each one helps
};

/// Advice for the largest categories of `needed`, largest first. It needs no search, so it can be given when
/// an allocation has failed. Categories below a tenth of the total, and categories that follow from others,
/// are left out.
std::vector<MemoryAdvice> advise(const MemoryCounts& needed, const EngineOptions& options);

}  // namespace trireme
