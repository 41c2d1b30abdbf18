// Moves the data of one call between threads that act as ranks, after every rank has posted its tensors:
// loops over host memory, without synchronisation or allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

/// The properties of a call that all ranks must agree on.
struct CallSignature {
  CallKind kind = CallKind::kBarrier;
  DType dtype = DType::kUInt8;
  std::int64_t in_elems = 0;  // of one rank; for an in-place call or a message, its only tensor
  std::int64_t out_elems = 0;
  ReduceOp op = ReduceOp::kSum;  // reductions only
  int root = -1;                 // broadcast only

  bool operator==(const CallSignature&) const = default;
  /// "reduce_scatter(sum of fp32, 8 -> 2 elements)".
  std::string to_string() const;
};

/// One rank's part of a call. In-place calls and messages use `in` only.
struct CallPart {
  Tensor in;
  Tensor out;
  std::string text;               // all_gather_strings
  std::vector<std::byte> values;  // all_gather_values
  int color = 0;                  // split
};

/// Moves and reduces the tensors of all ranks, `parts` in rank order. Sums run in rank order. Does nothing
/// for calls without tensors. For a message, parts are {sender, receiver}.
void exchange_tensors(const CallSignature& signature, std::span<const CallPart> parts);

}  // namespace trireme
