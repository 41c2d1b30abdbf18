// Parameters of one block in plain memory on one device: for tests, examples and programs that use a tape
// without an engine.
#pragma once

#include <vector>

#include "runtime/block.h"

namespace trireme {

class LocalParameters : public ParameterResolver {
 public:
  /// Allocates and initialises `specs`, without adapters. `prefix` + "." + spec.name keys the random numbers.
  LocalParameters(const Context& ctx, const std::vector<ParameterSpec>& specs, const std::string& prefix,
                  std::uint64_t seed);
  /// The parameters and adapters of `block`, which must outlive this object.
  LocalParameters(const Context& ctx, const Block& block, std::uint64_t seed)
      : LocalParameters(ctx, block.parameters(), block.name(), seed) {
    block_ = &block;
  }

  Tensor value(ParamRef ref) override { return entry(ref).value; }
  /// Overwrites on the first use since clear_gradients(), accumulates afterwards.
  GradientTarget gradient(ParamRef ref) override;
  const Adapter* adapter(ParamRef weight) const override {
    return block_ != nullptr ? block_->adapter(weight) : nullptr;
  }

  /// The gradient of the last backward; throws if none arrived.
  const Tensor& gradient_of(ParamRef ref) const;
  void clear_gradients();

 private:
  struct Entry {
    std::string name;
    Tensor value, gradient;
    bool written = false;
  };
  Entry& entry(ParamRef ref) { return entries_.at(static_cast<std::size_t>(ref.index)); }
  const Block* block_ = nullptr;  // null: constructed from specs
  std::vector<Entry> entries_;
};

}  // namespace trireme
