// cuDNN's graph API on the host: descriptors with checks of their own, heuristics that propose what a test
// wants, and graphs played operation by operation in double precision, rounded where a tensor is stored.
//
// Engines do what their notes admit: one that is nondeterministic differs from run to run, one with tensor
// cores rounds fp32 operands of convolutions to tf32, and one that transforms or shortens is off by a
// thousandth. So a choice that breaks the contract of kernels fails the conformance suite.
#pragma once

#include <cudnn_graph.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

namespace emulation {

/// An engine that the heuristics propose, in this order.
struct DnnEngine {
  std::vector<cudnnBackendNumericalNote_t> notes;
  std::size_t workspace_bytes = 0;
  bool builds = true;
  bool lacks_memory = false;  // when it is built
  bool is_fallback = false;   // proposed behind the others, to those who ask
  bool is_classic = false;    // takes one operation alone, whose tensors have one type
  bool wants_eights = false;  // takes only convolutions whose channels and outputs are multiples of 8
  bool wants_odds = false;    // takes only others
  bool is_wide = false;       // takes no graph that shortens an fp32 result within
  bool widens = false;        // takes only graphs that turn a tensor of 16 bits into an fp32 one
  bool groups_heads = true;   // takes products whose factors have unlike counts of heads
  bool repeats = false;       // gives the same bits, whatever its notes say
  bool runs = true;           // what was built may be refused all the same

  bool has(cudnnBackendNumericalNote_t note) const;
};
/// For what is built from now on; of the whole process. Empty: those of the start, which tempt with every
/// kind that the contract refuses before one that fits.
void set_dnn_engines(std::vector<DnnEngine> engines);

/// The version that the library claims, as 10000 major + 100 minor + patch; of the whole process.
void set_dnn_version(std::size_t number);

/// Since the start, of the whole process.
struct DnnCounts {
  int handles = 0, live_handles = 0, heuristics = 0, runs = 0, refusals = 0;
};
DnnCounts& dnn_counts();

// Passed from cudnn.cc to cudnn_play.cc.

struct DnnTensor {
  std::int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::array<std::int64_t, 4> dims{}, strides{};
};
struct DnnOperation {
  cudnnBackendDescriptorType_t kind = CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
  int mode = 0;           // of pointwise operations and reductions
  std::int64_t axis = 0;  // of indices
  std::array<std::int64_t, 2> stride{}, padding{};
  DnnTensor x, b, t, y;  // in the order of their roles; of convolutions images, weight, -, images
  bool has_b = false;
};
struct DnnMemory {
  void* data = nullptr;  // of the caller; null: `values`
  std::shared_ptr<std::vector<double>> values;
};

/// Runs the operations in their order; `memory` holds the caller's tensors.
void play(const std::vector<DnnOperation>& operations, std::map<std::int64_t, DnnMemory> memory,
          const DnnEngine& engine);

}  // namespace emulation
