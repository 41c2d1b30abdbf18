// NF4: four-bit codes of frozen weights, as QLoRA has them. Shared by all backends, so that all give the same
// bits.
//
// [Note: nf4] The weights of frozen linear layers can be stored in four bits (train.lora.quantize = "nf4";
// Dettmers et al. 2023). A weight is a row-major sequence of blocks of 64 elements. A block has one scale s,
// its largest magnitude, and each element x the code of the level nearest to x / s among 16: the quantiles of
// a normal distribution. The scales are quantized, too: their mean m over the weight is subtracted, and 256
// of them share one fp32 scale S, their largest magnitude, and get an 8-bit code of a dynamic exponent format
// each (Dettmers 2016). So an element takes 4 + 8 / 64 + 32 / (64 * 256) = 4.127 bits, and is read as
//     level[code] * (dynamic[scale_code] * S + m)
// with each result rounded to fp32. Formats, orders and roundings are those of bitsandbytes (quant_type =
// "nf4", compress_statistics), so codes are equal: two codes share a byte, the first in its high half. A
// weight is quantized as we store it, so packed projections (q, k and v) share m, and a block of 256 scales
// may hold scales of two of them.
//
// A computation reads the weight through DequantizeNf4Args into a buffer of the compute dtype, in forward and
// again in backward, so only one weight of a block is held at a time in full. The codes are never updated.
#pragma once

#include <cstdint>
#include <span>

namespace trireme {

inline constexpr std::int64_t kNf4Block = 64;        // elements that share a scale
inline constexpr std::int64_t kNf4ScaleBlock = 256;  // scales that share an fp32 scale

/// The numbers that codes stand for, both ascending.
struct Nf4Levels {
  float levels[16];
  float dynamic[256];
};
const Nf4Levels& nf4_levels();

/// Number of fp32 numbers of a weight of n elements: the mean of its scales, then one scale for 256 scales.
constexpr std::int64_t num_nf4_scales(std::int64_t n) {
  constexpr std::int64_t kElems = kNf4Block * kNf4ScaleBlock;
  return 1 + (n + kElems - 1) / kElems;
}

/// A weight of n elements in host memory.
template <class Byte, class Float>
struct Nf4Spans {
  std::span<Byte> codes;        // [(n + 1) / 2]
  std::span<Byte> scale_codes;  // one per block
  std::span<Float> scales;      // [num_nf4_scales(n)]
};
using Nf4Weight = Nf4Spans<std::uint8_t, float>;
using ConstNf4Weight = Nf4Spans<const std::uint8_t, const float>;

/// Quantizes x into `weight`. The numbers must be finite. Results do not depend on `num_threads`.
void quantize_nf4(std::span<const float> x, const Nf4Weight& weight, int num_threads);

/// Restores the codes of numbers that dequantize_nf4() made with `weight.scales`, which is an input here.
/// Other numbers get the nearest codes.
void requantize_nf4(std::span<const float> x, const Nf4Weight& weight, int num_threads);

/// Elements [first, first + x.size()) of a weight; `first` is a multiple of kNf4Block.
void dequantize_nf4(const ConstNf4Weight& weight, std::int64_t first, std::span<float> x);

}  // namespace trireme
