#include "models/class_token.h"

#include "runtime/ops/pool.h"
#include "runtime/ops/reshape.h"

namespace trireme {

Tensor class_token(Context& ctx, const Tensor& x) {
  const std::int64_t samples = x.shape()[0], tokens = x.shape()[1], width = x.shape()[2];
  // A 1 x 1 pool whose stride spans all tokens keeps only the first one.
  const Tensor first =
      ops::avg_pool(ctx, ops::reshape(ctx, x, {samples, 1, tokens, width}), {.stride = tokens});
  return ops::reshape(ctx, first, {samples, 1, width});
}

}  // namespace trireme
