// Computes the gradients of parameters later than the gradients of activations.
//
// [Note: backward in two parts] A pipeline stage waits for the gradient of its output, never for the
// gradients of parameters. With Context::deferred set, Tape::backward runs the first part only. Ops whose
// parameter gradients are separate work (linear, conv2d, embedding) save the inputs of that work. Parameter
// gradients of other ops (norms) are by-products of the first part; they are staged in separate memory.
// DeferredGradients::run does the second part, in the order of a plain backward: the same sums, and the same
// bits. The saved inputs occupy memory until the second part runs. It does not read the values of parameters.
//
// A saved tensor is shared, so no op of the first part writes it in place.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "runtime/context.h"

namespace trireme {

/// The work that the first part of a backward leaves to the second.
class DeferredGradients {
 public:
  /// `work` may query the resolver of its context for gradient targets only, never for values.
  void push(std::function<void(Context&)> work) { work_.push_back(std::move(work)); }
  /// The target, during the first part, of an op that does not defer: fp32 of `shape`, overwritten on the
  /// first use of a parameter, accumulated afterwards.
  GradientTarget stage(const Context& ctx, ParamRef ref, const Shape& shape);
  /// Writes to the targets of ctx.parameters, and frees each piece of work after it has run. Empty
  /// afterwards. Throws Error(kUnsupported) for a parameter that ops of both kinds have used: its sum would
  /// have another order.
  void run(const Context& ctx);

 private:
  std::vector<std::function<void(Context&)>> work_;
  std::map<int, Tensor> staged_;  // by ParamRef::index
};

/// Resolver for the first part: gradients go to a DeferredGradients.
class StagedParameters final : public ParameterResolver {
 public:
  /// All three must outlive this object.
  StagedParameters(const Context& ctx, ParameterResolver& parameters, DeferredGradients& deferred)
      : ctx_(ctx), parameters_(parameters), deferred_(deferred) {}

  Tensor value(ParamRef ref) override { return parameters_.value(ref); }
  float center(ParamRef ref) const override { return parameters_.center(ref); }
  GradientTarget gradient(ParamRef ref) override {
    return deferred_.stage(ctx_, ref, parameters_.value(ref).shape());
  }
  const Adapter* adapter(ParamRef weight) const override { return parameters_.adapter(weight); }

 private:
  const Context& ctx_;
  ParameterResolver& parameters_;
  DeferredGradients& deferred_;
};

/// Runs the parameter-gradient part of an op's backward now, or pushes it to ctx.deferred. `Gradient` is a
/// struct with its inputs and run(Context&) const.
template <class Gradient>
void run_or_defer(Context& ctx, Gradient gradient) {
  if (ctx.deferred != nullptr) {
    ctx.deferred->push([gradient = std::move(gradient)](Context& later) { gradient.run(later); });
  } else {
    gradient.run(ctx);
  }
}

}  // namespace trireme
