// The model of `trireme eval` and `trireme sample`: a checkpoint of a run, or a folder of Hugging Face's
// transformers, such as the base of a fine-tuning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "launcher/config/config.h"
#include "launcher/data/data_record.h"
#include "parallel/run/engine.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/hf_extras.h"
#include "runtime/data/tokenizer.h"

namespace trireme {

struct TrainedModel {
  std::filesystem::path folder;          // of the checkpoint or of transformers
  std::int64_t step = 0;                 // 0: transformers
  JobConfig config;                      // of the run; for transformers the model's and the defaults
  DataRecord data;                       // what is known of the training data
  std::optional<Checkpoint> checkpoint;  // null: transformers

  /// Loads the parameters, or with `averages` their averages (train.ema). Collective. Throws
  /// Error(kInvalidInput) if the folder does not have them.
  void load(Engine& engine, bool averages) const;
  /// The tokenizer of the training data, or of the folder. Throws Error(kInvalidInput) if there is none.
  std::unique_ptr<Tokenizer> tokenizer() const;
  /// The chat template and the special tokens that the model was kept with.
  HfExtras extras() const;
};

/// Throws Error(kInvalidInput) if `place` is neither, and Error(kUnsupported) for a model of transformers
/// that this build does not compute. `averages`: refuses models without averages.
TrainedModel open_trained_model(const std::string& place, bool averages);

}  // namespace trireme
