#include "runtime/ops/time_embedding.h"

#include "runtime/base/error.h"

namespace trireme::ops {

Tensor time_embedding(Context& ctx, const Tensor& timesteps, std::int64_t dim,
                      const TimeEmbeddingOptions& options) {
  TRIREME_CHECK(timesteps.shape().rank() == 1 && timesteps.dtype() == DType::kFloat32,
                "time_embedding: timesteps {} {} are not fp32 [B]", name(timesteps.dtype()),
                timesteps.shape().to_string());
  TRIREME_CHECK(
      dim >= 2 && static_cast<float>(dim / 2) > options.downscale_freq_shift && options.max_period > 0,
      "time_embedding: dim {} with downscale_freq_shift {} and max_period {} does not work: dim / 2 "
      "must exceed the shift, and the period be positive",
      dim, options.downscale_freq_shift, options.max_period);
  Tensor out = ctx.empty({timesteps.shape()[0], dim});
  ctx.run(TimeEmbeddingArgs{.timesteps = timesteps,
                            .out = out,
                            .halves = options.halves,
                            .frequency_shift = options.downscale_freq_shift,
                            .scale = options.scale,
                            .max_period = options.max_period});
  return out;
}

}  // namespace trireme::ops
