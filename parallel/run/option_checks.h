// What an Engine's options must be before anything is built of them.
#pragma once

#include "parallel/run/engine.h"

namespace trireme {

/// The options themselves. Throws Error(kInvalidInput) where they do not go together, with the reason.
const EngineOptions& checked(const EngineOptions& options);

/// Throws Error(kInvalidInput) where the sequence is to be shared and a block has no rows of one.
void check_sequence(const EngineOptions& options, const BlockList& blocks);

/// The options with the host of every rank, those of `world` where they have none.
EngineOptions on_hosts(EngineOptions options, const Communicator& world);

}  // namespace trireme
