// Checks an Engine's options before anything is built.
#pragma once

#include "parallel/run/engine.h"

namespace trireme {

/// Returns the options. Throws Error(kInvalidInput) with the reason if they contradict each other.
const EngineOptions& checked(const EngineOptions& options);

/// The optimizer that the options describe. Throws Error(kInvalidInput) for one of the caller's that is null
/// or whose state has unusable names.
std::unique_ptr<Optimizer> optimizer_of(const EngineOptions& options);

/// Throws Error(kInvalidInput) if the sequence is shared and a block has no sequence rows.
void check_sequence(const EngineOptions& options, const BlockList& blocks);

/// Fills an empty `hosts` with the hosts of `world`.
EngineOptions on_hosts(EngineOptions options, const Communicator& world);

}  // namespace trireme
