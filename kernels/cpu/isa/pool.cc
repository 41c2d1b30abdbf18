#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// Calls body(output pixel offset, input pixel offset, index within the window) for all pixels of all windows
// that are inside the image, window by window. Offsets are in floats.
template <class Begin, class Body>
inline void for_each_pixel(const PoolImage& p, const Begin& begin, const Body& body) {
  for (std::int64_t i = 0; i < p.out_height; ++i) {
    for (std::int64_t j = 0; j < p.out_width; ++j) {
      const std::int64_t out = (i * p.out_width + j) * p.channels;
      begin(out);
      for (std::int64_t r = 0; r < p.window_height; ++r) {
        const std::int64_t h = i * p.stride + r - p.padding;
        if (h < 0 || h >= p.height) continue;
        for (std::int64_t s = 0; s < p.window_width; ++s) {
          const std::int64_t w = j * p.stride + s - p.padding;
          if (w < 0 || w >= p.width) continue;
          body(out, (h * p.width + w) * p.channels, r * p.window_width + s);
        }
      }
    }
  }
}

constexpr auto nothing = [](std::int64_t) {};

void max_fwd(const PoolImage& p, const float* x, float* y, std::uint8_t* place) {
  bool first = true;
  const auto begin = [&](std::int64_t) { first = true; };
  for_each_pixel(p, begin, [&](std::int64_t out, std::int64_t in, std::int64_t at) {
    const float* __restrict from = x + in;
    float* __restrict best = y + out;
    std::uint8_t* __restrict where = place != nullptr ? place + out : nullptr;
    const auto now = static_cast<std::uint8_t>(at);
    if (first) {
      __builtin_memcpy(best, from, static_cast<std::size_t>(p.channels) * sizeof(float));
      if (where != nullptr) __builtin_memset(where, now, static_cast<std::size_t>(p.channels));
      first = false;
    } else if (where == nullptr) {
#pragma omp simd
      for (std::int64_t c = 0; c < p.channels; ++c) {
        best[c] = from[c] > best[c] || from[c] != from[c] ? from[c] : best[c];
      }
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < p.channels; ++c) {
        const bool better = from[c] > best[c] || (from[c] != from[c] && best[c] == best[c]);
        best[c] = better ? from[c] : best[c];
        where[c] = better ? now : where[c];
      }
    }
  });
}

void clear(const PoolImage& p, float* dx) {
  __builtin_memset(dx, 0, static_cast<std::size_t>(p.height * p.width * p.channels) * sizeof(float));
}

void max_bwd(const PoolImage& p, const float* dy, const std::uint8_t* place, float* dx) {
  clear(p, dx);
  for_each_pixel(p, nothing, [&](std::int64_t out, std::int64_t in, std::int64_t at) {
    const float* __restrict from = dy + out;
    const std::uint8_t* __restrict where = place + out;
    float* __restrict to = dx + in;
#pragma omp simd
    for (std::int64_t c = 0; c < p.channels; ++c) to[c] += where[c] == at ? from[c] : 0.0f;
  });
}

void avg_fwd(const PoolImage& p, const float* x, float* y) {
  const float inverse = 1.0f / static_cast<float>(p.window_height * p.window_width);
  __builtin_memset(y, 0, static_cast<std::size_t>(p.out_height * p.out_width * p.channels) * sizeof(float));
  for_each_pixel(p, nothing, [&](std::int64_t out, std::int64_t in, std::int64_t) {
#pragma omp simd
    for (std::int64_t c = 0; c < p.channels; ++c) y[out + c] += x[in + c];
  });
  for (std::int64_t i = 0; i < p.out_height * p.out_width * p.channels; ++i) y[i] *= inverse;
}

void avg_bwd(const PoolImage& p, const float* dy, float* dx) {
  const float inverse = 1.0f / static_cast<float>(p.window_height * p.window_width);
  clear(p, dx);
  for_each_pixel(p, nothing, [&](std::int64_t out, std::int64_t in, std::int64_t) {
#pragma omp simd
    for (std::int64_t c = 0; c < p.channels; ++c) dx[in + c] += dy[out + c] * inverse;
  });
}

}  // namespace

const PoolNumerics pool_numerics{
    .max_fwd = max_fwd, .max_bwd = max_bwd, .avg_fwd = avg_fwd, .avg_bwd = avg_bwd};

}  // namespace trireme::cpu::TRIREME_ISA
