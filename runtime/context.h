// Everything a forward or backward needs, passed explicitly: device, stream, allocator, parameters, tape,
// precision, RNG key.
#pragma once

#include <memory>
#include <source_location>

#include "kernels/backend.h"
#include "runtime/base/rng.h"
#include "runtime/parameter.h"
#include "runtime/precision.h"
#include "runtime/statistic.h"
#include "runtime/tensor.h"

namespace trireme {

class DeferredGradients;
class KeyValueCache;
class Tape;
class TensorAxis;
namespace ops {
class SharedGradients;
}

struct Context {
  const Backend* backend = nullptr;
  KernelContext exec;
  std::shared_ptr<Allocator> allocator;
  std::shared_ptr<void> stream;  // owns exec.stream
  ParameterResolver* parameters = nullptr;
  StatisticResolver* statistics = nullptr;  // null: training records no statistics

  TensorAxis* tensor = nullptr;  // null: all chunks of the model are computed here

  Tape* tape = nullptr;  // null: inference, nothing is recorded or saved
  // In a tensor chunk that is recorded: gradients of parameters that all chunks read. Else null.
  std::shared_ptr<ops::SharedGradients> shared_gradients;
  bool training = false;  // dropout and the like
  DeferredGradients* deferred =
      nullptr;  // in backward: collects deferred parameter gradients; null: no deferral

  KeyValueCache* cache = nullptr;  // decoding: the cached earlier tokens; null: no cache

  Precision precision;    // the dtype each op computes in
  Tensor gradient_scale;  // [] fp32, or undefined: 1. Loss ops multiply their gradient by it

  // Key of the next random op of the running block; next_rng() advances `rng.op`.
  RngKey rng;
  std::int64_t first_sample = 0;  // global index, within the step, of row 0 of the micro-batch

  /// A context for one rank: its own allocator on `device`, `num_threads` host threads. `backend` replaces
  /// the device's own table; tests pass an instrumented one.
  static Context create(Device device, int num_threads,
                        std::optional<std::int64_t> memory_limit = std::nullopt,
                        const Backend* backend = nullptr);

  /// Runs the op of `args`; see Backend::run.
  template <class Args>
  void run(const Args& args) const {
    backend->run(exec, args);
  }

  // `where` names the caller in an out-of-memory error: see runtime/base/memory_holders.h.

  /// Uninitialised.
  Tensor empty(const Shape& shape, DType dtype = DType::kFloat32,
               MemoryCategory category = MemoryCategory::kActivations,
               std::source_location where = std::source_location::current()) const;
  Tensor zeros(const Shape& shape, DType dtype = DType::kFloat32,
               MemoryCategory category = MemoryCategory::kActivations,
               std::source_location where = std::source_location::current()) const;
  /// A copy of `shape.num_elems()` elements of host memory.
  Tensor from_host(const void* data, const Shape& shape, DType dtype,
                   MemoryCategory category = MemoryCategory::kActivations,
                   std::source_location where = std::source_location::current()) const;
  /// Waits for the tensor and copies it to the host as floats; fp16 and bf16 are widened. Throws for other
  /// dtypes.
  std::vector<float> to_host(const Tensor& tensor) const;

  /// The key of the next random op of this block; the sequence is the same every time the block runs.
  RngKey next_rng();
};

}  // namespace trireme
