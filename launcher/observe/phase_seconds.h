// The phases of a step's time, as written to metrics.jsonl.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "parallel/run/step_phases.h"

namespace trireme {

enum class Phase : std::uint8_t {
  kDataWait,    // waiting for micro-batches
  kForward,     // unknown in a recorded step, as are the next three
  kBackward,    // including recompute
  kExchange,    // exchanges, without their overlapped part
  kOptimizer,   // gradient norm and update
  kCheckpoint,  // saving a checkpoint after the previous step; not part of step_ms
};
inline constexpr int kNumPhases = static_cast<int>(Phase::kCheckpoint) + 1;

/// "data_wait", "forward" ...
inline std::string_view name(Phase phase) {
  constexpr std::array<std::string_view, kNumPhases> kNames = {"data_wait", "forward",   "backward",
                                                               "exchange",  "optimizer", "checkpoint"};
  return kNames[static_cast<std::size_t>(phase)];
}

/// Seconds per phase, of rank 0; null where not measured.
class PhaseSeconds {
 public:
  std::optional<double>& operator[](Phase phase) { return seconds_[static_cast<std::size_t>(phase)]; }
  const std::optional<double>& operator[](Phase phase) const {
    return seconds_[static_cast<std::size_t>(phase)];
  }
  /// Adds another step; unknown values count as 0.
  void add(const PhaseSeconds& other) {
    for (std::size_t p = 0; p < seconds_.size(); ++p) {
      if (other.seconds_[p]) seconds_[p] = seconds_[p].value_or(0) + *other.seconds_[p];
    }
  }
  /// Calls visit(name, seconds) for each known phase, in order.
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

/// `report_s`: time in the exchange of the ranks' reports, which waits for the slowest rank.
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
