// cuDNN's graph API on the host. Descriptors are checked, heuristics propose the engines that a test sets,
// and graphs run operation by operation in double precision, rounded where a tensor is stored.
//
// Engines behave as their notes declare. A nondeterministic one differs from run to run. One with tensor
// cores rounds fp32 operands of convolutions to tf32. One with transforms or reduced precision is off by a
// thousandth. So a choice that breaks the kernel contracts fails the conformance suite.
#pragma once

#include <cudnn_graph.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

namespace emulation {

/// An engine that the heuristics propose, in the order of the list.
struct DnnEngine {
  std::vector<cudnnBackendNumericalNote_t> notes;
  std::size_t workspace_bytes = 0;
  bool builds = true;
  bool lacks_memory = false;  // fails for lack of memory when it is built
  bool is_fallback = false;   // proposed after the others, on request only
  bool is_classic = false;    // supports only one operation, with tensors of one type
  bool wants_eights = false;  // supports only convolutions whose channels and outputs are multiples of 8
  bool wants_odds = false;    // supports only other convolutions
  bool is_wide = false;       // supports no graph that narrows an fp32 result inside
  bool widens = false;        // supports only graphs that widen a 16-bit tensor to fp32
  bool groups_heads = true;   // supports products whose factors have different numbers of heads
  bool repeats = false;       // repeats its bits, whatever its notes declare
  bool runs = true;           // false: refuses to run after it was built

  bool has(cudnnBackendNumericalNote_t note) const;
};
/// Sets the engines of plans built from now on, for the whole process. Empty restores the default, which
/// proposes every kind that the contract forbids before one that fits.
void set_dnn_engines(std::vector<DnnEngine> engines);

/// Sets the reported version, as 10000 major + 100 minor + patch, for the whole process.
void set_dnn_version(std::size_t number);

/// Counts since the start, for the whole process.
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
  std::int64_t axis = 0;  // of an index operation
  std::array<std::int64_t, 2> stride{}, padding{};
  DnnTensor x, b, t, y;  // in the order of their roles; for convolutions: images, weight, -, images
  bool has_b = false;
};
struct DnnMemory {
  void* data = nullptr;  // of the caller; null: `values`
  std::shared_ptr<std::vector<double>> values;
};

/// Runs the operations in order. `memory` holds the caller's tensors.
void play(const std::vector<DnnOperation>& operations, std::map<std::int64_t, DnnMemory> memory,
          const DnnEngine& engine);

}  // namespace emulation
