// The bounds of keys among the activations: see DocumentRows. They follow the hidden states from block to
// block, because only the first and last pipeline stages read the batch.
#pragma once

#include <utility>

#include "runtime/block.h"

namespace trireme {

/// The bounds [B, T, 2] that follow x; undefined if each row is one document.
inline Tensor bounds_of(const Activations& input) {
  return input.size() > 1 ? input[1] : Tensor();
}

/// {x, bounds}, or {x} without bounds.
inline Activations with_bounds(Tensor x, const Tensor& bounds) {
  if (!bounds.defined()) return {std::move(x)};
  return {std::move(x), bounds};
}

}  // namespace trireme
