// State of a block without a gradient: the running statistics of its norms.
//
// [Note: running statistics] A block declares StatisticSpecs beside its parameters and holds StatisticRefs.
// In training it hands over a sample of each, of its micro-batch; it never sees the running value then.
// The engine moves the values once a step, by the samples of all micro-batches of all ranks in
// order of their global index: value = (1 - momentum) value + momentum sample. So they are the same on every
// layout, and what one device would have that saw the micro-batches one after the other. Where the model is
// cut into stages each stage has those of its own blocks and sees all micro-batches. In a step that does
// not count they stay. A block that runs twice (recompute) hands over the same sample twice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/parameter.h"
#include "runtime/tensor.h"

namespace trireme {

struct StatisticSpec {
  std::string name;  // within the block: "bn1.running_mean"
  Shape shape;
  float initial = 0.0f;
  float momentum = 0.1f;
};

/// A block's handle of one of its own statistics.
struct StatisticRef {
  int index = -1;
  bool defined() const { return index >= 0; }
};

/// The operands of the products with a weight: see [Note: fp8] in runtime/base/fp8.h.
enum class Fp8Operand : std::uint8_t { kInput, kWeight, kOutputGradient };
inline constexpr int kNumFp8Operands = static_cast<int>(Fp8Operand::kOutputGradient) + 1;

/// The maxima of an operand.
struct Fp8Maxima {
  Tensor history;  // [kFp8HistoryElems]
  Tensor sample;   // []: takes the maximum of this micro-batch; undefined if it is not wanted
};

class StatisticResolver {
 public:
  virtual ~StatisticResolver() = default;
  /// The running value, fp32.
  virtual Tensor value(StatisticRef ref) = 0;
  /// The target of this micro-batch's sample, fp32; undefined if it is not wanted.
  virtual Tensor sample(StatisticRef ref) = 0;
  /// Nothing where the products with `weight` are not in fp8.
  virtual std::optional<Fp8Maxima> maxima(ParamRef /*weight*/, Fp8Operand) { return std::nullopt; }
};

}  // namespace trireme
