#include "runtime/base/nf4.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <vector>

namespace trireme {
namespace {

// The table of appendix E of the paper.
constexpr float kLevels[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171229224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

// a + b c, rounded once. The product of two floats is exact in double precision.
float fused(float a, double b, double c) {
  return static_cast<float>(static_cast<double>(a) + b * c);
}

// Decade i has 2^i numbers of each sign: the centers of equal parts of [0.1, 1], times 10^(i - 6). With 0 and
// 1 there are 256. Roundings are those of torch.linspace, so that the numbers are equal to the bit.
void fill_dynamic(float (&dynamic)[256]) {
  constexpr int kDecades = 7;
  int count = 0;
  for (int decade = 0; decade < kDecades; ++decade) {
    const int parts = 1 << decade;
    const float step = (1.0f - 0.1f) / static_cast<float>(parts);
    const auto bound = [&](int k) {
      return k < (parts + 1) / 2 ? fused(0.1f, step, k) : fused(1.0f, -step, parts - k);
    };
    const auto power = static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
    for (int k = 0; k < parts; ++k) {
      const float center = (bound(k) + bound(k + 1)) / 2.0f;
      dynamic[count++] = power * center;
      dynamic[count++] = -(power * center);
    }
  }
  dynamic[count++] = 0.0f;
  dynamic[count++] = 1.0f;
  assert(count == 256);
  std::ranges::sort(dynamic);
}

// Index of the nearest of ascending levels; a tie goes to the lower one.
template <std::size_t N>
std::uint8_t nearest(const float (&levels)[N], float x) {
  const float* low = levels;
  std::size_t count = N - 1;  // of midpoints left: between low[i] and low[i + 1]
  while (count > 0) {
    const std::size_t half = count / 2;
    if ((low[half] + low[half + 1]) / 2.0f < x) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return static_cast<std::uint8_t>(low - levels);
}

// As bitsandbytes scales a block: a whole block by the reciprocal, a shorter one at the end by division.
struct Normalizer {
  float scale, inverse;
  bool divides;

  Normalizer(float largest, bool is_whole)
      : scale(std::max(largest, 1e-38f)), inverse(1.0f / scale), divides(!is_whole) {}
  float operator()(float x) const { return std::clamp(divides ? x / scale : x * inverse, -1.0f, 1.0f); }
};

float largest_magnitude_of(std::span<const float> x) {
  float largest = 0.0f;
  for (const float value : x) largest = std::max(largest, std::fabs(value));
  return largest;
}

void set_code(std::span<std::uint8_t> codes, std::size_t i, std::uint8_t code) {
  std::uint8_t& byte = codes[i / 2];
  byte = i % 2 == 0 ? static_cast<std::uint8_t>(code << 4) : static_cast<std::uint8_t>(byte | code);
}

/// fp32 numbers: dynamic * S + m, with both results rounded, and never fused.
float scale_of(float dynamic, float scale, float mean) {
  return static_cast<float>(static_cast<double>(dynamic) * static_cast<double>(scale)) + mean;
}

std::span<const float> block_of(std::span<const float> x, std::size_t block) {
  constexpr auto kBlock = static_cast<std::size_t>(kNf4Block);
  return x.subspan(block * kBlock, std::min(kBlock, x.size() - block * kBlock));
}

std::size_t num_blocks(std::size_t n) {
  return (n + static_cast<std::size_t>(kNf4Block) - 1) / static_cast<std::size_t>(kNf4Block);
}

void quantize_scales(std::span<const float> scales, const Nf4Weight& weight) {
  constexpr auto kBlock = static_cast<std::size_t>(kNf4ScaleBlock);
  double sum = 0.0;
  for (const float scale : scales) sum += static_cast<double>(scale);
  const auto mean = static_cast<float>(sum / static_cast<double>(scales.size()));
  weight.scales[0] = mean;
  for (std::size_t first = 0; first < scales.size(); first += kBlock) {
    std::vector<float> shifted;
    for (const float scale : scales.subspan(first, std::min(kBlock, scales.size() - first))) {
      shifted.push_back(scale - mean);
    }
    const float largest = largest_magnitude_of(shifted);
    const Normalizer normalized(largest, shifted.size() == kBlock);
    weight.scales[1 + first / kBlock] = largest;
    for (std::size_t i = 0; i < shifted.size(); ++i) {
      weight.scale_codes[first + i] = nearest(nf4_levels().dynamic, normalized(shifted[i]));
    }
  }
}

// The code of a scale with which the elements of a block are read as x exactly, or -1. A scale that was near
// 0 can be read as a negative one, and then both signs of the largest magnitude are possible.
int restore_scale(std::span<const float> x, float scale, float mean) {
  const float largest = largest_magnitude_of(x);
  for (int code = 0; code < 256; ++code) {
    const float read = scale_of(nf4_levels().dynamic[code], scale, mean);
    if (largest != 0.0f && std::fabs(read) != largest) continue;
    const bool fits = std::ranges::all_of(x, [&](float value) {
      const float level = kLevels[nearest(kLevels, value / read)];
      return std::bit_cast<std::uint32_t>(level * read) == std::bit_cast<std::uint32_t>(value);
    });
    if (fits) return code;
  }
  return -1;
}

}  // namespace

const Nf4Levels& nf4_levels() {
  static const Nf4Levels levels = [] {
    Nf4Levels made;
    std::ranges::copy(kLevels, made.levels);
    fill_dynamic(made.dynamic);
    return made;
  }();
  return levels;
}

void quantize_nf4(std::span<const float> x, const Nf4Weight& weight, int num_threads) {
  std::vector<float> scales(num_blocks(x.size()));
  const auto count = std::ssize(scales);
#pragma omp parallel for schedule(static) num_threads(num_threads)
  for (std::int64_t b = 0; b < count; ++b) {
    const auto block = static_cast<std::size_t>(b);
    const std::span<const float> values = block_of(x, block);
    scales[block] = largest_magnitude_of(values);
    const Normalizer normalized(scales[block], std::ssize(values) == kNf4Block);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t at = block * static_cast<std::size_t>(kNf4Block) + i;
      set_code(weight.codes, at, nearest(kLevels, normalized(values[i])));
    }
  }
  quantize_scales(scales, weight);
}

void requantize_nf4(std::span<const float> x, const Nf4Weight& weight, int num_threads) {
  const float mean = weight.scales[0];
  const auto count = static_cast<std::int64_t>(num_blocks(x.size()));
#pragma omp parallel for schedule(static) num_threads(num_threads)
  for (std::int64_t b = 0; b < count; ++b) {
    const auto block = static_cast<std::size_t>(b);
    const std::span<const float> values = block_of(x, block);
    const float scale = weight.scales[1 + block / static_cast<std::size_t>(kNf4ScaleBlock)];
    const int restored = restore_scale(values, scale, mean);
    const Normalizer normalized(scale, true);
    const auto code = restored >= 0
                          ? static_cast<std::uint8_t>(restored)
                          : nearest(nf4_levels().dynamic, normalized(largest_magnitude_of(values) - mean));
    weight.scale_codes[block] = code;
    const float read = scale_of(nf4_levels().dynamic[code], scale, mean);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t at = block * static_cast<std::size_t>(kNf4Block) + i;
      const float level = read == 0.0f ? 0.0f : std::clamp(values[i] / read, -1.0f, 1.0f);
      set_code(weight.codes, at, nearest(kLevels, level));
    }
  }
}

void dequantize_nf4(const ConstNf4Weight& weight, std::int64_t first, std::span<float> x) {
  assert(first % kNf4Block == 0);
  for (std::int64_t begin = 0; begin < std::ssize(x); begin += kNf4Block) {
    const std::int64_t block = (first + begin) / kNf4Block;
    const float scale =
        scale_of(nf4_levels().dynamic[weight.scale_codes[static_cast<std::size_t>(block)]],
                 weight.scales[static_cast<std::size_t>(1 + block / kNf4ScaleBlock)], weight.scales[0]);
    float numbers[16];
    for (int code = 0; code < 16; ++code) numbers[code] = kLevels[code] * scale;
    const std::uint8_t* pairs = weight.codes.data() + (first + begin) / 2;
    const std::int64_t count = std::min(kNf4Block, std::ssize(x) - begin);
    float* out = x.data() + begin;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint8_t pair = pairs[i / 2];
      out[i] = numbers[i % 2 == 0 ? pair >> 4 : pair & 15];
    }
  }
}

}  // namespace trireme
