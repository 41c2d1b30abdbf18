// The trainer's part of a checkpoint's manifest, beside the engine's state.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "launcher/config/config.h"
#include "launcher/host/arithmetic.h"
#include "launcher/train/data_record.h"
#include "launcher/train/measured_products.h"
#include "launcher/train/spike_state.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/loss_scaler.h"

namespace trireme {

/// The trainer's part of a manifest.
struct RunState {
  std::int64_t step = 0;
  double loss = 0;                  // of that step
  std::optional<double> eval_loss;  // of the last evaluation
  bool evaluation_due = false;      // this step's is still to come; false where a build did not save it
  std::string state_hash;
  std::optional<LossScaleState> loss_scale;  // empty: of a build that did not save it
  JobConfig config;                          // resolved
  BitFacts arithmetic;                       // of the ranks; empty: of a build that did not save it
  MeasuredProducts products;                 // that it goes by; empty: heuristics choose
  DataRecord data;                           // the tokenizer's file is beside
  std::optional<SpikeState> spikes;          // empty: of a build that did not save it
};

/// As the content of a manifest.
nlohmann::json to_content(const RunState& state);

/// Throws Error(kInvalidInput) naming the folder when the manifest is not of a training run.
RunState read_run_state(const Checkpoint& checkpoint);

}  // namespace trireme
