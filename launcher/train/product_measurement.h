// parallel.tune_products: chooses among a card's algorithms for matrix products.
#pragma once

#include "launcher/train/run_start.h"

namespace trireme {

/// Collective; call before the engine is created. Sets `run.products` and the engine's options, the same on
/// every rank. Known choices come from the checkpoint that the run resumes from, or from the output folder,
/// if they were measured on an identical card; rank 0 measures the others. Writes all choices to the output
/// folder. Without the key, and on devices without a choice, heuristics choose. Warns if a change of choices
/// changes bits.
void choose_products(TrainingRun& run);

}  // namespace trireme
