// Checks from plans whether a job fits into memory, and searches for a change that makes it fit, without
// allocating anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "parallel/foresee/remedy_search.h"

namespace trireme {

struct MemoryFit {
  std::int64_t limit_bytes = 0;  // per rank
  std::int64_t peak_bytes = 0;   // with predicted workspaces
  MemoryCounts at_peak;
  std::string action;                      // at the peak: "Backward unit 3 (head) micro-batch 0"
  std::optional<Remedy> remedy;            // if the job does not fit
  std::optional<SmallestLayout> smallest;  // if nothing fits

  bool fits() const { return peak_bytes <= limit_bytes; }
};

/// Compares the prediction for a rank of a job with its limit. Searches for a remedy if it does not fit.
MemoryFit fit_memory(const PlannedJob& job, const StepPrediction& prediction, std::int64_t limit_bytes);
/// The same for the rank that needs most.
MemoryFit fit_memory(const PlannedJob& job, std::int64_t limit_bytes);

}  // namespace trireme
