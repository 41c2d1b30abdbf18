// Parameters as blocks declare them, and how an op reaches one while it runs.
//
// A block declares ParameterSpecs and holds ParamRefs: indices into its own list, never memory. Whoever runs
// the block (the executor, a test, example 01) supplies a ParameterResolver that says where the working copy
// and the gradient are now. So a released shard cannot dangle, and no block knows whether it is sharded.
//
// [Note: centered working copies] A 16-bit working copy holds a parameter minus its spec's `center`, and the
// op that reads it adds the center again in fp32. Beside 1, where the gains of norms start and stay, bf16 has
// steps of 2^-7: updates of 1e-3 would be lost until they add up to one. Of the difference from 1 it keeps
// eight bits. Masters, checkpoints and fp32 working copies hold the parameter itself. Rejected: an fp32 copy
// of small parameters, which closes the gap to fp32 no further and takes bytes, messages and mixed dtypes in
// every kernel.
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
  enum class Kind : std::uint8_t { kZeros, kOnes, kNormal, kUniform } kind = Kind::kZeros;
  float width = 0.0f;  // kNormal: the standard deviation, mean 0; kUniform: within (-width, width)

  static Initializer zeros() { return {Kind::kZeros, 0.0f}; }
  static Initializer ones() { return {Kind::kOnes, 0.0f}; }
  static Initializer normal(float stddev) { return {Kind::kNormal, stddev}; }
  static Initializer uniform(float bound) { return {Kind::kUniform, bound}; }
};

struct ParameterSpec {
  std::string name;  // within the block: "attention.qkv.weight"
  Shape shape;
  Initializer init;
  bool decay = true;  // weight decay applies; by convention to matrices, not to biases and norms
  // The weight of an inner linear layer, read by ops::linear alone: mode fp8 reads it in 8 bits ([Note: fp8]
  // in runtime/base/fp8.h), and it can have an adapter ([Note: adapters] in runtime/adapter.h).
  bool allows_fp8 = false;
  float center = 0.0f;  // see [Note: centered working copies]; only for ops that read it so
  std::string
      tied_to;  // full name ("embedding.tokens") of the parameter that this is another use of; or empty
  ParameterSlice slice = {};  // what it is of a larger one; `name` ends with chunk_suffix(slice)
};

/// What `slice` is of the parameter `whole`. The dimension that is cut must divide.
ParameterSpec slice_of(ParameterSpec whole, const ParameterSlice& slice);

/// The target of a parameter's gradient: `mode` kIgnore when it is not wanted.
struct GradientTarget {
  Tensor tensor;
  GradientMode mode = GradientMode::kIgnore;
  /// The view for a kernel: undefined when ignored.
  TensorView view() const { return mode == GradientMode::kIgnore ? TensorView{} : tensor.view(); }
};

class ParameterResolver {
 public:
  virtual ~ParameterResolver() = default;
  /// The working copy, in the compute dtype: the parameter minus center(ref).
  virtual Tensor value(ParamRef ref) = 0;
  /// 0, but for 16-bit working copies of a spec with another center.
  virtual float center(ParamRef) const { return 0.0f; }
  virtual GradientTarget gradient(ParamRef ref) = 0;
  /// That of a weight of ops::linear; null: it has none. See [Note: adapters] in runtime/adapter.h.
  virtual const Adapter* adapter(ParamRef weight) const = 0;
};

/// Elements [first, first + out.size()) of a fresh parameter: a function of (seed, full name, element) alone,
/// of the whole parameter where it is a slice of one. Host memory.
void initialize_parameter(const ParameterSpec& spec, const std::string& full_name, std::uint64_t seed,
                          std::int64_t first, std::span<float> out);

}  // namespace trireme
