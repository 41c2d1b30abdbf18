// The layouts that a search looks at: [Note: search of layouts] in layout_search.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/foresee/predict.h"
#include "runtime/base/error.h"

namespace trireme {

/// What all candidates have; nothing: what the search likes.
struct FixedLayout {
  std::optional<int> tensor, stages, chunks, recompute_every;
  std::optional<bool> sequence;
  std::optional<ZeroStage> zero;
  std::optional<PipelineSchedule> schedule;  // of several stages
  std::optional<Recompute> recompute;
};

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

/// Of a job on `job.num_ranks` ranks. Micro-batches vary where they may.
std::vector<LayoutFamily> layouts_of(const PlannedJob& job, const FixedLayout& fixed,
                                     bool varies_micro_batch);

/// Micro-batches of the data rank that has most; 0: there is none for each of them.
std::int64_t rounds_of(const EngineOptions& options, int data);

}  // namespace trireme
