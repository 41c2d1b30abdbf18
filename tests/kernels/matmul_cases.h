// Products that several tests use.
#pragma once

#include "kernels/backend.h"

namespace trireme::testing {

struct MatmulCase {
  std::int64_t m, n, k;
  Transpose ta = Transpose::kNo, tb = Transpose::kNo;
  DType in = DType::kFloat32, out = DType::kFloat32;
  MathMode math = MathMode::kFp32;
};

// fp32 products that use panels on the cpu ([Note: operand copies]).
inline constexpr MatmulCase kWeightGradient{1037, 519, 520, Transpose::kYes, Transpose::kNo};
inline constexpr MatmulCase kFewRows{500, 520, 1100, Transpose::kNo, Transpose::kNo};
inline constexpr MatmulCase kDeep{70, 200, 20000, Transpose::kNo, Transpose::kYes};

}  // namespace trireme::testing
