// The trainer's part of a checkpoint's manifest, beside the engine's state.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "launcher/config/config.h"
#include "launcher/data/data_record.h"
#include "launcher/host/arithmetic.h"
#include "launcher/state/measured_products.h"
#include "launcher/state/spike_state.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/hf_extras.h"
#include "runtime/loss_scaler.h"

namespace trireme {

/// The trainer's part of a manifest.
struct RunState {
  std::int64_t step = 0;
  double loss = 0;                  // of that step
  std::optional<double> eval_loss;  // of the last evaluation
  bool evaluation_due = false;      // this step's evaluation is still to come; older builds: false
  std::string state_hash;
  std::optional<LossScaleState> loss_scale;  // null: older build
  JobConfig config;                          // resolved
  BitFacts arithmetic;                       // of the ranks; empty: older build
  MeasuredProducts products;                 // in use; empty: heuristics choose
  DataRecord data;                           // the tokenizer's file is stored beside
  std::optional<SpikeState> spikes;          // null: older build
  HfExtras hf_extras;                        // of the folder that the run started from
};

/// The content of a manifest.
nlohmann::json to_content(const RunState& state);

/// Throws Error(kInvalidInput) with the folder if the manifest is not from a training run.
RunState read_run_state(const Checkpoint& checkpoint);

}  // namespace trireme
