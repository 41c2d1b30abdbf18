// The candidates of a layout search: [Note: search of layouts] in layout_search.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/foresee/predict.h"
#include "runtime/base/error.h"

namespace trireme {

/// True for an error with which an engine refuses a layout.
inline bool is_refusal(const Error& error) {
  return error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kInvalidInput;
}

struct DataSharding {
  ZeroStage zero = ZeroStage::kNone;
  Exchange exchange = Exchange::kAuto;
};

/// Layouts whose ranks compute the same, and differ in the sharing with data ranks.
struct LayoutFamily {
  PlannedJob job;  // with its first sharding
  std::vector<DataSharding> shardings;

  PlannedJob layout(std::size_t sharding) const;
};

/// The candidates for a job on `job.num_ranks` ranks: every value of the fields in `open`, and the job's
/// value of the others. The micro-batch varies if `varies_micro_batch`.
std::vector<LayoutFamily> layouts_of(const PlannedJob& job, const OpenFields& open, bool varies_micro_batch);

/// Micro-batches of the data rank with the most; 0: some rank would have none.
std::int64_t rounds_of(const EngineOptions& options, int data);

}  // namespace trireme
