// The layouts that a search looks at: [Note: search of layouts] in layout_search.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/foresee/predict.h"
#include "runtime/base/error.h"

namespace trireme {

/// True of an error with which an engine refuses a layout.
inline bool is_refusal(const Error& error) {
  return error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kInvalidInput;
}

struct DataSharding {
  ZeroStage zero = ZeroStage::kNone;
  Exchange exchange = Exchange::kAuto;
};

/// Layouts whose ranks compute the same, and share it differently with their data ranks.
struct LayoutFamily {
  PlannedJob job;  // as its first sharding has it
  std::vector<DataSharding> shardings;

  PlannedJob layout(std::size_t sharding) const;
};

/// The candidates for a job on `job.num_ranks` ranks: every value of the fields in `open`, and the job's
/// value of the others. Micro-batches vary where they may.
std::vector<LayoutFamily> layouts_of(const PlannedJob& job, const OpenFields& open, bool varies_micro_batch);

/// Micro-batches of the data rank that has most; 0: there is none for each of them.
std::int64_t rounds_of(const EngineOptions& options, int data);

}  // namespace trireme
