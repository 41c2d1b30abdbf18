// The checkpoints of a run: what is noted in them beside the engine's state, and which one a run starts from.
#pragma once

#include <filesystem>
#include <optional>

#include "launcher/train/run_state.h"
#include "parallel/run/engine.h"
#include "runtime/checkpoint/checkpoint_store.h"

namespace trireme {

/// Writes the checkpoint of engine.steps_done(), whole or not at all, then removes all but the newest
/// `config.checkpoint.keep`. Collective: rank 0 writes, with its `state` and `tokenizer_model`, and returns
/// the folder. The others return nothing, once the checkpoint is in its place.
std::filesystem::path save_checkpoint(CheckpointStore& store, const Engine& engine, const RunState& state,
                                      const std::optional<std::filesystem::path>& tokenizer_model);

// The parts of it that rank 0 does beside the engine's state:
/// Writes the tokenizer's file beside the state, as read_checked_tokenizer() reads it. Throws as that does,
/// and Error(kRuntime) when the disk refuses.
void copy_tokenizer(const std::filesystem::path& model, const RunState& state,
                    const std::filesystem::path& folder);
/// Brings a checkpoint to its place, then removes old ones. Returns its folder.
std::filesystem::path commit_checkpoint(CheckpointStore& store, PendingCheckpoint& pending,
                                        const RunState& state);

/// Notes the evaluation that was due in the manifest of `folder`, which has either content at any moment. One
/// process alone.
void note_evaluation(const std::filesystem::path& folder, double eval_loss);

/// The checkpoint that checkpoint.resume names, wholly verified; nothing for a fresh start. Throws
/// Error(kInvalidInput) when a path was given and there is no whole checkpoint.
std::optional<Checkpoint> find_resume(const CheckpointStore& store, const Resume& resume);

/// Throws Error(kInvalidInput) where a checkpoint has no averages of the parameters.
void check_averages(const Checkpoint& checkpoint);

/// A step folder, or a run's output folder (then its newest checkpoint), as users name it.
Checkpoint open_checkpoint_or_run(const std::filesystem::path& path, Verify verify = Verify::kChecksums);
/// Whether a path is such a folder, by its looks.
bool holds_checkpoint(const std::filesystem::path& path);

}  // namespace trireme
