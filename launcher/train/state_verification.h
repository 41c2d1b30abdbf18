// checkpoint.verify_every: looks for bits of the state that flipped, and says where.
//
// A rank's look goes to the others with its report of the step ([Note: one exchange a step] in trainer.h), or
// before a checkpoint in an exchange of its own. What is found ends the job: nothing that is wrong is saved,
// and a supervisor goes on from the newest checkpoint, which was verified.
#pragma once

#include <cstdint>
#include <span>

#include "parallel/run/engine.h"

namespace trireme {

class StateVerification {
 public:
  /// `every` = 0: nothing is done. The engine outlives this; its state is taken to be right.
  StateVerification(const Engine& engine, std::int64_t every);

  bool is_due(std::int64_t step) const { return every_ > 0 && step % every_ == 0; }
  /// This rank's look after a step, the newest where it is due. Waits then.
  StateCheck look(std::int64_t step) const;
  /// Throws AgreedError where the looks of all ranks at a step tell of corruption. Collective then.
  void judge(std::int64_t step, std::span<const StateCheck> checks);
  /// Between two steps, all that can be seen. Throws AgreedError. Collective.
  void verify_now();

 private:
  const Engine& engine_;
  const std::int64_t every_;
  std::int64_t verified_step_;  // the state was right after it
  std::int64_t messages_step_;  // and all messages until its end
};

/// After the state was gathered for a checkpoint, before that is one. Throws AgreedError where one of the
/// messages arrived as something else; nothing where they are not summed up. Collective.
void check_messages_of_save(const Engine& engine);

}  // namespace trireme
