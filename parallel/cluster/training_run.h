// One training step of a GPT on a cluster: model shape, batch, layout and measured time.
#pragma once

#include <optional>
#include <string>

namespace trireme {

/// Models are GPTs whose MLPs are 4 times as wide as `hidden`.
struct TrainingRun {
  std::string device;     // a ClusterDevice's name
  std::string precision;  // fp32, tf32, fp16, bf16, bf16-pure (parameters in 16 bits too), fp8
  int ranks = 1;          // tensor * data * pipeline
  int global_batch = 1, micro_batch = 1;  // samples
  int seq_len = 1;                        // tokens
  int layers = 1, hidden = 1, heads = 1, vocab = 1;
  int tensor = 1, data = 1, pipeline = 1;
  int chunks = 1;                 // of an interleaved schedule, per rank
  std::optional<int> zero;        // ZeRO stage; empty: 0
  std::optional<bool> recompute;  // empty: the framework's default
  std::optional<double> step_ms;  // measured
};

}  // namespace trireme
