// Where the time of a step goes, as metrics.jsonl and what is made from it have it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "parallel/run/step_phases.h"

namespace trireme {

enum class Phase : std::uint8_t {
  kDataWait,    // for micro-batches
  kForward,     // of a recorded step, neither this nor the next three are known
  kBackward,    // with the recomputing of activations
  kExchange,    // what exchanges cost after all overlap
  kOptimizer,   // gradient norm and update
  kCheckpoint,  // saving one after the step before: no part of step_ms
};
inline constexpr int kNumPhases = static_cast<int>(Phase::kCheckpoint) + 1;

/// "data_wait", "forward" ...
inline std::string_view name(Phase phase) {
  constexpr std::array<std::string_view, kNumPhases> kNames = {"data_wait", "forward",   "backward",
                                                               "exchange",  "optimizer", "checkpoint"};
  return kNames[static_cast<std::size_t>(phase)];
}

/// Of rank 0, in seconds; nothing where it is not measured.
class PhaseSeconds {
 public:
  std::optional<double>& operator[](Phase phase) { return seconds_[static_cast<std::size_t>(phase)]; }
  const std::optional<double>& operator[](Phase phase) const {
    return seconds_[static_cast<std::size_t>(phase)];
  }
  /// Those of another step; what is not known there counts nothing.
  void add(const PhaseSeconds& other) {
    for (std::size_t p = 0; p < seconds_.size(); ++p) {
      if (other.seconds_[p]) seconds_[p] = seconds_[p].value_or(0) + *other.seconds_[p];
    }
  }
  /// Calls visit(name, seconds) for those that are known, in order.
  template <class Visit>
  void visit(Visit visit) const {
    for (int p = 0; p < kNumPhases; ++p) {
      const auto phase = static_cast<Phase>(p);
      if ((*this)[phase]) visit(name(phase), *(*this)[phase]);
    }
  }

 private:
  std::array<std::optional<double>, kNumPhases> seconds_;
};

/// `report_s`: of the exchange in which the ranks report the step, which waits for the slowest of them.
inline PhaseSeconds phases_of_step(const std::optional<StepPhases>& engine, double data_wait_s,
                                   double report_s, double checkpoint_s) {
  PhaseSeconds phases;
  phases[Phase::kDataWait] = data_wait_s;
  phases[Phase::kCheckpoint] = checkpoint_s;
  if (!engine) return phases;
  phases[Phase::kForward] = engine->forward_s;
  phases[Phase::kBackward] = engine->backward_s;
  phases[Phase::kExchange] = engine->exchange_s + report_s;
  phases[Phase::kOptimizer] = engine->optimizer_s;
  return phases;
}

}  // namespace trireme
