// The checkpoints of a run: what they contain beside the engine's state, and which one a run starts from.
#pragma once

#include <filesystem>
#include <optional>

#include "launcher/state/run_state.h"
#include "runtime/checkpoint/checkpoint_store.h"

namespace trireme {

/// Writes the tokenizer's file beside the state, as read by read_checked_tokenizer(). Throws as that does,
/// and Error(kRuntime) if the disk fails.
void copy_tokenizer(const std::filesystem::path& model, const RunState& state,
                    const std::filesystem::path& folder);

/// Adds the loss of the evaluation that was due to the manifest of `folder`, atomically. Call from one
/// process only.
void note_evaluation(const std::filesystem::path& folder, double eval_loss);

/// The checkpoint that checkpoint.resume selects, fully verified; null for a fresh start. Throws
/// Error(kInvalidInput) if a given path has no whole checkpoint.
std::optional<Checkpoint> find_resume(const CheckpointStore& store, const Resume& resume);

/// Throws Error(kInvalidInput) if the checkpoint has no averages of the parameters.
void check_averages(const Checkpoint& checkpoint);

/// Opens a step folder, or the newest checkpoint of a run's output folder.
Checkpoint open_checkpoint_or_run(const std::filesystem::path& path, Verify verify = Verify::kChecksums);
/// True if `path` looks like such a folder.
bool holds_checkpoint(const std::filesystem::path& path);

}  // namespace trireme
