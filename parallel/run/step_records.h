// The results of steps, kept on the device until the host collects them, so that no step waits for the host.
//
// [Note: results a step later] A step ends by copying its losses, norm, scale and skip flag, device to
// device, into one of two records, and the record to the host. The host may read a record at any time, at
// best when the next step is in flight. It waits only for that copy, while the device continues with the next
// step.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/run/step_phases.h"
#include "runtime/context.h"
#include "runtime/loss_scaler.h"

namespace trireme {

struct StepResult {
  std::int64_t step = 0;  // steps done, including this one
  float loss = 0;         // mean over the targets of the global batch
  float grad_norm = 0;    // before clipping, without the loss scale
  float loss_scale = 1;   // of this step
  bool skipped = false;   // parameters and optimizer state are unchanged: non-finite norm, or left_out()
  std::int32_t skipped_in_a_row = 0;  // including this step
  std::int32_t clipped = 0;     // mode fp8: clipped operands of this stage; [Note: fp8] in runtime/base/fp8.h
  MemoryStats memory;           // peaks of this step on this rank
  std::int64_t sent_bytes = 0;  // by this rank in this step
  double comm_wait_ms = 0;      // of its thread, in posting and waiting: Communicator::exposed_ms
  std::optional<StepPhases> phases;  // of this rank; empty if steps are recorded

  /// True if Engine::leave_out_steps skipped the step, not a non-finite gradient.
  bool left_out() const { return skipped && std::isfinite(grad_norm); }
};

class StepRecords {
 public:
  static constexpr std::size_t kMaxPending = 2;

  /// Allocates records of `num_losses` losses; in mode fp8 they also count clipped operands.
  StepRecords(const Context& ctx, std::int64_t num_losses);

  /// `known` is what is already known of a step; the rest is copied on the device. `num_clipped` [] int32 may
  /// be undefined. Throws Error(kInvalidInput) when kMaxPending records wait to be read.
  void add(const Context& ctx, const StepResult& known, const Tensor& losses, const Tensor& grad_norm,
           const LossScaler& scaler, const Tensor& num_clipped);
  std::size_t num_pending() const { return pending_.size(); }

  struct Record {
    StepResult result;  // all but the loss
    std::vector<float> losses;
  };
  /// Waits for the oldest record. Throws Error(kInvalidInput) if there is none.
  Record take(const Context& ctx);

 private:
  struct Slot {
    // [num_losses + kNumScalars] fp32: losses, norm, scale, and two int32, skip and skipped in a row; in mode
    // fp8 one more int32, the clipped operands.
    Tensor values;
    std::unique_ptr<HostCopy> host;  // null where the device is the host
  };
  static constexpr std::int64_t kNumScalars = 4;
  struct Pending {
    StepResult known;
    std::size_t slot = 0;
    bool scaled = false, counts_clipped = false;
  };
  const std::int64_t num_losses_;
  Slot slots_[kMaxPending];
  std::deque<Pending> pending_;
  std::size_t next_slot_ = 0;
};

}  // namespace trireme
