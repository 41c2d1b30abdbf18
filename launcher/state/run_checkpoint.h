// The checkpoints of a run: what they contain beside the engine's state, and which one a run starts from.
#pragma once

#include <filesystem>
#include <optional>

#include "launcher/state/run_state.h"
#include "parallel/run/engine.h"
#include "runtime/checkpoint/checkpoint_store.h"

namespace trireme {

/// Writes the checkpoint of engine.steps_done(), atomically, then removes all but the newest
/// `config.checkpoint.keep`. Collective. Rank 0 writes, with its `state` and `tokenizer_model`, and returns
/// the folder. The other ranks return an empty path once the checkpoint is complete.
std::filesystem::path save_checkpoint(CheckpointStore& store, const Engine& engine, const RunState& state,
                                      const std::optional<std::filesystem::path>& tokenizer_model);

// Parts of save_checkpoint() that only rank 0 does:
/// Writes the tokenizer's file beside the state, as read by read_checked_tokenizer(). Throws as that does,
/// and Error(kRuntime) if the disk fails.
void copy_tokenizer(const std::filesystem::path& model, const RunState& state,
                    const std::filesystem::path& folder);
/// Renames a complete checkpoint to its final name, then removes old ones. Returns its folder.
std::filesystem::path commit_checkpoint(CheckpointStore& store, PendingCheckpoint& pending,
                                        const RunState& state);

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
