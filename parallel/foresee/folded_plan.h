// A plan for simulating many ranks that do the same.
//
// [Note: folded plans] The data ranks of a stage do the same at the same time, and so do all tensor ranks but
// the first. So a plan of only the first data rank, with two tensor ranks per stage, takes the same time as
// the whole plan, if its exchanges take the time of all their ranks. Planning time does not grow with the
// number of data ranks. A folded plan is not validated: to show or run a layout, all ranks are planned.
#pragma once

#include "parallel/foresee/predict.h"
#include "parallel/plan/plan.h"

namespace trireme {

/// The plan of the ranks with data coordinate 0 and a tensor coordinate below `tensor_places`, in their own
/// mesh.
StepPlan fold_plan(const PlannedJob& job, int tensor_places = 2);

/// The number of the job's ranks that each rank of the folded plan represents.
std::vector<double> folded_weights(const PlannedJob& job, const StepPlan& folded);

}  // namespace trireme
