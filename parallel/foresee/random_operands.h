// Random operands for measurements, because cards are faster on zeros.
#pragma once

#include <map>

#include "runtime/context.h"

namespace trireme {

class RandomOperands {
 public:
  /// `ctx` outlives this.
  explicit RandomOperands(const Context& ctx);

  /// Enqueues the filling of `memory` with numbers from -1 to 1, the same in every run; fp8 codes are random
  /// finite numbers, and integers are zero.
  void fill(TensorView memory) const;
  /// Fills integers with random ids in [0, num_ids).
  void fill_ids(TensorView memory, std::int64_t num_ids) const;

 private:
  const Context& ctx_;
  std::map<DType, Tensor> patterns_;
};

}  // namespace trireme
