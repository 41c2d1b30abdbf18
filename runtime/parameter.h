// Parameters as blocks declare them, and how a running op accesses one.
//
// A block declares ParameterSpecs and holds ParamRefs: indices into its own list, never memory. The caller of
// the block (the executor, a test, example 01) supplies a ParameterResolver, which returns the current
// working copy and gradient target. So a released shard cannot dangle, and a block works the same whether it
// is sharded or not.
//
// [Note: centered working copies] A 16-bit working copy holds a parameter minus its spec's `center`. The op
// that reads it adds the center again in fp32. Gains of norms start at 1 and stay near it, where the spacing
// of bf16 is 2^-7: updates of 1e-3 would be lost until they add up to one step. Stored as the difference from
// 1, a gain keeps eight significant bits of that difference. Masters, checkpoints and fp32 working copies
// hold the parameter itself. Rejected: an fp32 copy of small parameters. It closes the gap to fp32 no
// further, and costs bytes, messages and mixed dtypes in every kernel.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/backend.h"
#include "runtime/adapter.h"
#include "runtime/parameter_slice.h"
#include "runtime/tensor.h"

namespace trireme {

struct Initializer {
  enum class Kind : std::uint8_t { kZeros, kOnes, kConstant, kNormal, kUniform } kind = Kind::kZeros;
  // kConstant: the value; kNormal: the standard deviation, mean 0; kUniform: within (-width, width)
  float width = 0.0f;

  static Initializer zeros() { return {Kind::kZeros, 0.0f}; }
  static Initializer ones() { return {Kind::kOnes, 0.0f}; }
  static Initializer constant(float value) { return {Kind::kConstant, value}; }
  static Initializer normal(float stddev) { return {Kind::kNormal, stddev}; }
  static Initializer uniform(float bound) { return {Kind::kUniform, bound}; }
};

struct ParameterSpec {
  std::string name;  // within the block: "attention.qkv.weight"
  Shape shape;
  Initializer init;
  bool decay = true;  // weight decay applies; by convention to matrices only, not to biases and norms
  // The weight of an inner linear layer, read only by ops::linear. Mode fp8 reads it in 8 bits ([Note: fp8]
  // in runtime/base/fp8.h), and it can have an adapter ([Note: adapters] in runtime/adapter.h).
  bool allows_fp8 = false;
  float center = 0.0f;        // see [Note: centered working copies]; only for ops that add it
  std::string tied_to;        // full name ("embedding.tokens") of the parameter this one shares; or empty
  ParameterSlice slice = {};  // the slice of a larger parameter; `name` ends with chunk_suffix(slice)
};

/// The spec of slice `slice` of the parameter `whole`. The number of chunks must divide the cut dimension.
ParameterSpec slice_of(ParameterSpec whole, const ParameterSlice& slice);

/// The target of a parameter's gradient; `mode` is kIgnore when no gradient is wanted.
struct GradientTarget {
  Tensor tensor;
  GradientMode mode = GradientMode::kIgnore;
  /// The view for a kernel; undefined with kIgnore.
  TensorView view() const { return mode == GradientMode::kIgnore ? TensorView{} : tensor.view(); }
};

class ParameterResolver {
 public:
  virtual ~ParameterResolver() = default;
  /// The working copy, in the compute dtype: the parameter minus center(ref).
  virtual Tensor value(ParamRef ref) = 0;
  /// spec.center for 16-bit working copies, else 0.
  virtual float center(ParamRef) const { return 0.0f; }
  virtual GradientTarget gradient(ParamRef ref) = 0;
  /// False if gradient() will return kIgnore in backward. For ops whose forward computes gradients.
  virtual bool is_trained(ParamRef) const { return true; }
  /// The adapter of a weight of ops::linear, or null. See [Note: adapters] in runtime/adapter.h.
  virtual const Adapter* adapter(ParamRef weight) const = 0;
};

/// Elements [first, first + out.size()) of a fresh parameter, in host memory: a function of (seed, full name,
/// element) only. A slice uses the name and the element numbers of the whole parameter.
void initialize_parameter(const ParameterSpec& spec, const std::string& full_name, std::uint64_t seed,
                          std::int64_t first, std::span<float> out);

}  // namespace trireme
