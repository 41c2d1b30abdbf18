// Operands for measurements: cards are faster on zeros.
#pragma once

#include <map>

#include "runtime/context.h"

namespace trireme {

class RandomOperands {
 public:
  /// `ctx` outlives it.
  explicit RandomOperands(const Context& ctx);

  /// Numbers from -1 to 1, the same in every run, enqueued; integers are zero.
  void fill(TensorView memory) const;

 private:
  const Context& ctx_;
  std::map<DType, Tensor> patterns_;
};

}  // namespace trireme
