// Will a job fit, and if not, what would make it? Asked of plans, before anything is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "parallel/foresee/remedy_search.h"

namespace trireme {

struct MemoryFit {
  std::int64_t limit_bytes = 0;  // of a rank
  std::int64_t peak_bytes = 0;   // needed, with the workspaces that are predicted
  MemoryCounts at_peak;
  std::string action;                      // when: "Backward unit 3 (head) micro-batch 0"
  std::optional<Remedy> remedy;            // where it does not fit
  std::optional<SmallestLayout> smallest;  // where nothing fits

  bool fits() const { return peak_bytes <= limit_bytes; }
};

/// Compares the prediction of a rank of a job with its limit. Searches a remedy when it does not fit.
MemoryFit fit_memory(const PlannedJob& job, const StepPrediction& prediction, std::int64_t limit_bytes);
/// The same of the rank that needs most.
MemoryFit fit_memory(const PlannedJob& job, std::int64_t limit_bytes);

}  // namespace trireme
