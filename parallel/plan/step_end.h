// Writes the actions after the last backward of a step: gradients of tied parameters, loss, norm, update, and
// the gathers of updated copies. Also writes the swaps around an evaluation of averages.
#pragma once

#include <vector>

#include "parallel/plan/planner.h"

namespace trireme {

/// The exchanges that a step needs. On one rank a step needs no exchange except statistics.
OwedExchanges owed_exchanges(const Mesh& mesh, const PlanOptions& options);

/// True if a unit's gradient is complete only after the gradients of its uses on other stages have arrived.
bool gathers_at_end(const PlanOptions& options, int unit);

/// The actions for a rank of `stage`; peers are stages. `options.stages` has bounds.
std::vector<Action> end_of_step(int stage, const Mesh& mesh, const PlanOptions& options);

/// The actions at the beginning, and at the end, of an evaluation of averages. See [Note: averages].
std::vector<Action> swap_of_averages(int stage, const Mesh& mesh, const PlanOptions& options);

}  // namespace trireme
