// mma.sync.aligned.row.col with fp32 sums: m16n8k8 of tf32 and m16n8k16 of fp16 and bf16. Has the worst
// accuracy that a card may have.
#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <utility>

#include "tests/kernels/cuda/emulation/lane_board.h"

namespace {

constexpr unsigned kWarp = 32, kQuad = 4, kRows = 16, kCols = 8;

// Tensor cores read the upper 19 bits.
double tf32(std::uint32_t bits) {
  return std::bit_cast<float>(bits & ~0x1fffu);
}
double bf16(std::uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}
double fp16(std::uint32_t bits) {
  const std::uint32_t exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent < 0x1f) return sign * std::ldexp(mantissa + 1024, static_cast<int>(exponent) - 25);
  return mantissa == 0 ? sign * HUGE_VAL : NAN;
}

// Rounds towards zero, as cards do after every few products. PTX guarantees no more.
float cut_off(double x) {
  const auto nearest = static_cast<float>(x);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) -
                              (std::abs(double{nearest}) > std::abs(x)));
}

template <unsigned kDepth>
struct Factors {
  double a[kRows][kDepth], b[kDepth][kCols];
};

Factors<8> tf32_factors(const emulation::LaneBoard* lanes) {
  Factors<8> made;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const unsigned g = lane / kQuad, t = lane % kQuad;
    for (unsigned i = 0; i < 4; ++i) made.a[g + i % 2 * 8][t + i / 2 * 4] = tf32(lanes[lane].a[i]);
    for (unsigned i = 0; i < 2; ++i) made.b[t + i * 4][g] = tf32(lanes[lane].b[i]);
  }
  return made;
}

// Two neighbouring factors per word.
Factors<16> factors_of_16_bits(const emulation::LaneBoard* lanes, bool is_half) {
  Factors<16> made;
  const auto value = [&](std::uint32_t word, unsigned half) {
    const std::uint32_t bits = word >> (16 * half) & 0xffff;
    return is_half ? fp16(bits) : bf16(bits);
  };
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const unsigned g = lane / kQuad, t = lane % kQuad;
    for (unsigned half = 0; half < 2; ++half) {
      for (unsigned i = 0; i < 4; ++i) {
        made.a[g + i % 2 * 8][2 * t + half + i / 2 * 8] = value(lanes[lane].a[i], half);
      }
      for (unsigned i = 0; i < 2; ++i) made.b[2 * t + half + i * 8][g] = value(lanes[lane].b[i], half);
    }
  }
  return made;
}

// Computes the product for the whole warp.
template <unsigned kDepth>
void multiply(emulation::LaneBoard* lanes, const Factors<kDepth>& factors) {
  double d[kRows][kCols];
  const auto place = [](unsigned lane, unsigned i) {
    return std::pair(lane / kQuad + i / 2 * 8, lane % kQuad * 2 + i % 2);
  };
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    for (unsigned i = 0; i < 4; ++i) {
      const auto [row, col] = place(lane, i);
      d[row][col] = lanes[lane].d[i];
    }
  }
  for (unsigned row = 0; row < kRows; ++row) {
    for (unsigned first = 0; first < kDepth; first += 4) {
      for (unsigned k = first; k < first + 4; ++k) {
        for (unsigned col = 0; col < kCols; ++col) d[row][col] += factors.a[row][k] * factors.b[k][col];
      }
      for (unsigned col = 0; col < kCols; ++col) d[row][col] = cut_off(d[row][col]);
    }
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    for (unsigned i = 0; i < 4; ++i) {
      const auto [row, col] = place(lane, i);
      lanes[lane].d[i] = static_cast<float>(d[row][col]);
    }
  }
  lanes[0].is_done = true;
}

// The first lane that arrives calls factors(lanes).
template <class FactorsOf>
void emulate(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
             const FactorsOf& factors) {
  emulation::LaneBoard* lanes =
      emulation::exchange({.a = {a[0], a[1], a[2], a[3]}, .b = {b[0], b[1]}, .d = {d[0], d[1], d[2], d[3]}});
  if (!lanes[0].is_done) multiply(lanes, factors(lanes));
  const auto& own = lanes[threadIdx.x % kWarp].d;
  for (unsigned i = 0; i < 4; ++i) d[i] = own[i];
}

}  // namespace

void emulated_mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  emulate(d, a, b, tf32_factors);
}

void emulated_mma_16_bit(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                         bool is_half) {
  emulate(d, a, b, [&](const emulation::LaneBoard* lanes) { return factors_of_16_bits(lanes, is_half); });
}
