// Changes to a job that needs too much memory: fields and values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/foresee/predict.h"

namespace trireme {

/// A field with its new value: of Layout by its name in layout_fields(), or "micro_batch",
/// "data_cache_bytes" or "num_ranks".
struct Change {
  std::string_view field;
  LayoutValue value;
  bool operator==(const Change&) const = default;
};

/// "a, b and c".
std::string listed(const std::vector<std::string>& parts);

/// The changes that turn `from` into `to`: the data cache, the layout, the micro-batch, then the ranks.
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
