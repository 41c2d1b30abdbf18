// Parameters that units of two stages use. See [Note: tied over stages].
#pragma once

#include "parallel/plan/action.h"
#include "parallel/run/rank_parts.h"

namespace trireme {

class TiedParameters {
 public:
  /// `parts` outlives this.
  explicit TiedParameters(const RankParts& parts);

  /// Plays a send or receive of gradients or of parameters.
  void exchange(const Action& action);

  /// Sends the working copies to the stages that hold one. Collective over the pipeline axis; does nothing
  /// with one stage.
  void share();

 private:
  struct Use {
    TiedUnits units;
    int owner_stage = 0, user_stage = 0;
    int bucket = 0, group = 0;
    bool is_first = true;  // of its group on its stage
  };
  const RankParts& parts_;
  std::vector<Use> uses_;
};

}  // namespace trireme
