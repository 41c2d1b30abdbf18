// A plan for the simulation of many ranks that do the same.
//
// [Note: folded plans] The data ranks of a stage do the same at the same time, and so do all tensor ranks but
// the first. A plan of the first data rank alone, with two tensor ranks of each stage, therefore takes the
// time of the whole one, if its exchanges take that of all their ranks. It is planned in a time that does not
// grow with the number of data ranks. Nobody validates it: to show or to run a layout, all ranks are planned.
#pragma once

#include "parallel/foresee/predict.h"
#include "parallel/plan/plan.h"

namespace trireme {

/// Of the ranks with data coordinate 0 and a tensor coordinate below `tensor_places`, in a mesh of their own.
StepPlan fold_plan(const PlannedJob& job, int tensor_places = 2);

/// How many ranks of the job's each rank of the folded plan stands for.
std::vector<double> folded_weights(const PlannedJob& job, const StepPlan& folded);

}  // namespace trireme
