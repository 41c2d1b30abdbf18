// Gradients of parameters that are computed later than those of activations.
//
// [Note: backward in two parts] A stage of a pipeline waits for the gradient of its output, never for the
// gradients of parameters. With Context::deferred set, Tape::backward does the first part alone: ops whose
// parameter gradients are work of their own (linear, conv2d, embedding) leave behind what those need, and
// those of other ops (norms), which come as a by-product, are staged in memory of their own.
// DeferredGradients::run does the second part, in the order of a plain backward: the same sums, and the same
// bits. What is left behind costs memory until then, and parameters themselves are not needed any more.
//
// A tensor that is left behind is shared, so no op of the first part writes it in place.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "runtime/context.h"

namespace trireme {

/// The work that the first part of a backward leaves for the second.
class DeferredGradients {
 public:
  /// `work` asks its context's parameters for targets alone, never for values.
  void push(std::function<void(Context&)> work) { work_.push_back(std::move(work)); }
  /// The target of an op that does not defer, in the first part: fp32 of `shape`, overwritten on the first
  /// use of a parameter, accumulated afterwards.
  GradientTarget stage(const Context& ctx, ParamRef ref, const Shape& shape);
  /// Writes to the targets of ctx.parameters, and frees each piece as soon as it has run. Empty afterwards.
  /// Throws Error(kUnsupported) for a parameter that both kinds of ops have used: its sum would have another
  /// order.
  void run(const Context& ctx);

 private:
  std::vector<std::function<void(Context&)>> work_;
  std::map<int, Tensor> staged_;  // by ParamRef::index
};

/// Parameters as the first part sees them: gradients go to a DeferredGradients.
class StagedParameters final : public ParameterResolver {
 public:
  /// All three outlive this.
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

/// The part of an op's backward that computes gradients of parameters, a struct with what it needs and
/// run(Context&) const: runs now, or is left to ctx.deferred.
template <class Gradient>
void run_or_defer(Context& ctx, Gradient gradient) {
  if (ctx.deferred != nullptr) {
    ctx.deferred->push([gradient = std::move(gradient)](Context& later) { gradient.run(later); });
  } else {
    gradient.run(ctx);
  }
}

}  // namespace trireme
