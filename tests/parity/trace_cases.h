// The models and settings that gpt_trace trains, by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/bert.h"
#include "models/gpt.h"
#include "models/llama.h"
#include "models/lstm.h"
#include "runtime/optim/optimizer.h"
#include "runtime/precision.h"

namespace trireme {

/// Rows of BERT's tokens.
enum class Rows { kFull, kPadded, kPacked };

struct Case {
  GptConfig model;
  std::optional<LlamaConfig> llama;  // trained instead of a GPT, with the sizes of `model`
  std::optional<BertConfig> bert;    // likewise, on masked tokens, or on labels if it has classes
  std::optional<LstmConfig> lstm;    // likewise
  bool reads_text = false;           // trains on FOLDER/train.bin, without repetitions
  Rows rows = Rows::kFull;           // rows of BERT's tokens
  Precision precision;
  std::int64_t steps = 20;
  std::uint64_t seed = 11;
  std::int64_t micro_batch = 4;
  std::int64_t accumulation = 2;  // micro-batches per step, over all ranks
  int ranks = 1, zero = 0;
  OptimizerConfig optimizer;
  double peak_lr = 3e-3;
  float grad_clip = 1.0f;
  int ignore_every = 0;  // ignores every n-th target; 0: none
};

/// Throws Error(kInvalidInput) for an unknown name.
Case find_case(const std::string& name);

BlockList build(const Case& c);

}  // namespace trireme
