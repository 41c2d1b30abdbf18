// Compares the backward of an op with finite differences of its forward.
//
// The op's result y is projected to a number L = sum(w * y) with random w, summed in fp64. For random
// directions d over the input and over each parameter, <gradient, d> must equal (L(+h d) - L(-h d)) / 2h.
// Central differences of an fp32 forward have an error of O(h^2) from curvature and of about 1e-7 |L| / h
// from rounding. With the h used here, both are near 1e-4 of the gradient's norm. The tolerance is 2e-3, so a
// wrong term fails the check and rounding does not.
#pragma once

#include <functional>
#include <vector>

#include "runtime/context.h"
#include "runtime/local_parameters.h"

namespace trireme::testing {

struct GradcheckCase {
  std::vector<ParameterSpec> parameters;
  Shape input;            // fp32, random normal; tracked
  bool has_input = true;  // false: the op takes no differentiable input
  /// The op under test; ParamRef{i} is parameters[i].
  std::function<Tensor(Context& ctx, const Tensor& input)> op;
  /// Inputs for ops with kinks: values that no step of the check moves across a kink (see kLargestMove).
  /// Empty: random.
  std::vector<float> input_values = {};
  std::vector<std::vector<float>> parameter_values = {};
};

/// The largest change of any number by the check.
inline constexpr float kLargestMove = 0.03f;

/// Checks the gradients on the CPU, and that the meta device counts the same shapes and bytes. Differences
/// are GoogleTest failures.
void expect_gradients(const GradcheckCase& test);

/// Standard normal numbers, determined by `stream`.
std::vector<float> random_values(std::int64_t count, std::uint64_t stream);

}  // namespace trireme::testing
