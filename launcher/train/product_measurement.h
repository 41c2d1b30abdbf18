// parallel.tune_products: the choices among a card's algorithms that a run goes by.
#pragma once

#include "launcher/train/run_start.h"

namespace trireme {

/// Collective, before the engine is made. Sets `run.products` and the engine's options, the same on every
/// rank: the choices of the checkpoint that the run goes on from, or of the output folder, where those were
/// measured on such a card, and what rank 0 measures beside them. Writes them to the output folder. Without
/// the key, and on devices without a choice, heuristics choose; warns where bits change with it.
void choose_products(TrainingRun& run);

}  // namespace trireme
