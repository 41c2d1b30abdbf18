// Sinusoidal embedding of the timesteps of a diffusion process (Ho et al. 2020).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// The parameters of diffusers' get_timestep_embedding, with its defaults.
struct TimeEmbeddingOptions {
  TimeHalves halves = TimeHalves::kSineFirst;  // flip_sin_to_cos: kCosineFirst
  float downscale_freq_shift = 1.0f;
  float scale = 1.0f;
  float max_period = 10000.0f;
};

/// Timesteps [B] fp32 -> [B, dim] fp32: sines and cosines of their multiples, see TimeEmbeddingArgs. Has no
/// gradient. Throws Error(kInvalidInput) unless dim / 2 > downscale_freq_shift.
Tensor time_embedding(Context& ctx, const Tensor& timesteps, std::int64_t dim,
                      const TimeEmbeddingOptions& options = {});

}  // namespace trireme::ops
