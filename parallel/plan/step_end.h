// Writes what follows the last backward of a step: gradients of tied parameters, loss, norm, update, and what
// ranks then bring up to date; and that around an evaluation of averages.
#pragma once

#include <vector>

#include "parallel/plan/planner.h"

namespace trireme {

/// The exchanges that such a step needs; a step on one rank needs none but statistics.
OwedExchanges owed_exchanges(const Mesh& mesh, const PlanOptions& options);

/// True if a unit's gradient is complete only after those of its uses on other stages have come.
bool gathers_at_end(const PlanOptions& options, int unit);

/// For a rank of `stage`; peers are stages. `options.stages` has bounds.
std::vector<Action> end_of_step(int stage, const Mesh& mesh, const PlanOptions& options);

/// The same for what an evaluation of averages begins with, and ends with. See [Note: averages].
std::vector<Action> swap_of_averages(int stage, const Mesh& mesh, const PlanOptions& options);

}  // namespace trireme
