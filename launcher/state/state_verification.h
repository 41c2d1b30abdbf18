// checkpoint.verify_every: detects flipped bits in the state, and reports where.
//
// A rank's check is sent with its report of the step ([Note: one exchange a step] in trainer.h), or before a
// checkpoint in a separate exchange. Corruption ends the job, so nothing corrupt is saved. A supervisor
// resumes from the newest checkpoint, which was verified.
#pragma once

#include <cstdint>
#include <span>

#include "parallel/run/engine.h"

namespace trireme {

class StateVerification {
 public:
  /// `every` = 0: no checks. The engine outlives this; its state now is taken as correct.
  StateVerification(const Engine& engine, std::int64_t every);

  bool is_due(std::int64_t step) const { return every_ > 0 && step % every_ == 0; }
  /// This rank's check after a step. If a check is due, waits for it to complete.
  StateCheck look(std::int64_t step) const;
  /// Throws AgreedError if the ranks' checks of a step show corruption; collective in that case.
  void judge(std::int64_t step, std::span<const StateCheck> checks);
  /// Runs all checks between two steps. Collective. Throws AgreedError.
  void verify_now();

 private:
  const Engine& engine_;
  const std::int64_t every_;
  std::int64_t verified_step_;  // last step after which the state was verified
  std::int64_t messages_step_;  // last step whose messages were all verified
};

}  // namespace trireme
