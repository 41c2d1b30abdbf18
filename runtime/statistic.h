// State of a block without a gradient: the running statistics of its norms.
//
// [Note: running statistics] A block declares StatisticSpecs beside its parameters and holds StatisticRefs.
// In training it writes a sample of each statistic for its micro-batch, and never reads the running value.
// Once a step the engine updates the values by the samples of all micro-batches of all ranks, in order of the
// global index: value = (1 - momentum) value + momentum sample. So the values are equal on every layout, and
// equal to the values of one device that runs the micro-batches in sequence. Each pipeline stage holds the
// statistics of its own blocks and sees all micro-batches. A skipped step leaves them unchanged. A block that
// runs twice (recompute) writes the same sample twice.
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
  Tensor sample;   // []: receives the maximum of this micro-batch; undefined if not wanted
};

/// A tensor [..., C] of M rows as fp8 codes: approximately codes * inverse_scale.
struct Fp8Codes {
  Tensor codes;          // [..., C] e4m3, or e5m2 for output gradients; undefined if not wanted
  Tensor turned;         // [C, M]: the codes transposed; undefined if not wanted
  Tensor inverse_scale;  // [] fp32
};

class StatisticResolver {
 public:
  virtual ~StatisticResolver() = default;
  /// The running value, fp32.
  virtual Tensor value(StatisticRef ref) = 0;
  /// Receives the sample of this micro-batch, fp32; undefined if not wanted.
  virtual Tensor sample(StatisticRef ref) = 0;
  /// Empty if the products with `weight` are not in fp8.
  virtual std::optional<Fp8Maxima> maxima(ParamRef /*weight*/, Fp8Operand) { return std::nullopt; }
  /// The place of the codes of `weight`, which ops fill at their first use and read later. Null: they are not
  /// kept.
  virtual Fp8Codes* kept_codes(ParamRef /*weight*/) { return nullptr; }
};

}  // namespace trireme
