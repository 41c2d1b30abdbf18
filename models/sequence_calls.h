// The communication of a layer between tensor ranks that share the sequence: see [Note: sequence shards] in
// runtime/tensor_axis.h.
#pragma once

#include "runtime/tensor_axis.h"

namespace trireme {

/// For x + attention(norm(x)), then x + mlp(norm(x)). For each sum, backward does four calls. It gathers the
/// rows of the sum's gradient, gathers the input of the chunks again, scatters the input's gradient, and sums
/// the norm's.
inline TensorCalls pre_norm_sequence_calls() {
  using enum TensorCall;
  return {
      .forward = {kGatherRows, kScatterSum, kGatherRows, kScatterSum},
      .backward = {kGatherRows, kGatherRows, kScatterSum, kSum, kGatherRows, kGatherRows, kScatterSum, kSum}};
}

/// For norm(x + attention(x)), then norm(x + mlp(x)).
inline TensorCalls post_norm_sequence_calls() {
  using enum TensorCall;
  return {
      .forward = {kGatherRows, kScatterSum, kGatherRows, kScatterSum},
      .backward = {kSum, kGatherRows, kGatherRows, kScatterSum, kSum, kGatherRows, kGatherRows, kScatterSum}};
}

/// For x + norm(attention(norm(x))), then the same of the MLP.
inline TensorCalls both_norms_sequence_calls() {
  using enum TensorCall;
  return {.forward = {kGatherRows, kScatterSum, kGatherRows, kScatterSum},
          .backward = {kSum, kGatherRows, kGatherRows, kScatterSum, kSum, kSum, kGatherRows, kGatherRows,
                       kScatterSum, kSum}};
}

/// For a head that every rank holds whole. Forward gathers its input, and backward gathers it again.
inline TensorCalls whole_head_sequence_calls() {
  using enum TensorCall;
  return {.forward = {kGatherRows}, .backward = {kGatherRows}};
}

}  // namespace trireme
