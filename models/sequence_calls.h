// What a layer has the tensor ranks do together where they share the sequence: see [Note: sequence shards] in
// runtime/tensor_axis.h.
#pragma once

#include "runtime/tensor_axis.h"

namespace trireme {

/// Of x + attention(norm(x)), then x + mlp(norm(x)). Backward gathers the gradient of a sum's rows, gathers
/// what its chunks have read again, scatters the gradient of that, and sums the norm's.
inline TensorCalls pre_norm_sequence_calls() {
  using enum TensorCall;
  return {
      .forward = {kGatherRows, kScatterSum, kGatherRows, kScatterSum},
      .backward = {kGatherRows, kGatherRows, kScatterSum, kSum, kGatherRows, kGatherRows, kScatterSum, kSum}};
}

/// Of norm(x + attention(x)), then norm(x + mlp(x)).
inline TensorCalls post_norm_sequence_calls() {
  using enum TensorCall;
  return {
      .forward = {kGatherRows, kScatterSum, kGatherRows, kScatterSum},
      .backward = {kSum, kGatherRows, kGatherRows, kScatterSum, kSum, kGatherRows, kGatherRows, kScatterSum}};
}

/// Of a head that every rank has whole: it gathers its input, and backward gathers it again.
inline TensorCalls whole_head_sequence_calls() {
  using enum TensorCall;
  return {.forward = {kGatherRows}, .backward = {kGatherRows}};
}

}  // namespace trireme
