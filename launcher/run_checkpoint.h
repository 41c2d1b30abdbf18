// The checkpoints of a run: what is noted in them beside the engine's state, and which one a run starts from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launcher/arithmetic.h"
#include "launcher/config.h"
#include "parallel/engine.h"
#include "runtime/checkpoint/checkpoint_store.h"

namespace trireme {

/// What the trainer notes in a manifest.
struct RunState {
  std::int64_t step = 0;
  double loss = 0;                  // of that step
  std::optional<double> eval_loss;  // of the last evaluation
  bool evaluation_due = false;      // this step's is still to come; false where a build did not save it
  std::string state_hash;
  std::optional<LossScaleState> loss_scale;  // empty: of a build that did not save it
  JobConfig config;                          // resolved
  Arithmetic arithmetic;                     // of the ranks; empty: of a build that did not save it
  std::vector<std::string> class_names;      // by label; empty: no classes, without names, or not saved
  std::string tokenizer;  // "bytes", "sentencepiece" (then the model file is beside), or empty: not known
};

inline constexpr const char* kTokenizerModelFile = "tokenizer.model";

/// Writes the checkpoint of engine.steps_done(), whole or not at all, then removes all but the newest
/// `config.checkpoint.keep`. Collective: rank 0 writes, with its `state` and `tokenizer_model`, and returns
/// the folder; the others return nothing.
std::filesystem::path save_checkpoint(CheckpointStore& store, const Engine& engine, const RunState& state,
                                      const std::optional<std::filesystem::path>& tokenizer_model);

/// Notes the evaluation that was due in the manifest of `folder`, which has either content at any moment. One
/// process alone.
void note_evaluation(const std::filesystem::path& folder, double eval_loss);

/// The checkpoint that checkpoint.resume names, wholly verified; nothing for a fresh start. Throws
/// Error(kInvalidInput) when a path was given and there is no whole checkpoint.
std::optional<Checkpoint> find_resume(const CheckpointStore& store, const std::string& resume);

/// A step folder, or a run's output folder (then its newest checkpoint), as users name it.
Checkpoint open_checkpoint_or_run(const std::filesystem::path& path);

/// Throws Error(kInvalidInput) naming the folder when the manifest is not of a training run.
RunState read_run_state(const Checkpoint& checkpoint);

}  // namespace trireme
