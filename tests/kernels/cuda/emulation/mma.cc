// mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32, as a card may compute it at worst.
#include <cuda_runtime.h>

#include <bit>
#include <cmath>

#include "tests/kernels/cuda/emulation/lane_board.h"

namespace {

constexpr unsigned kWarp = 32, kQuad = 4, kRows = 16, kCols = 8, kDepth = 8;

// Tensor cores read the upper 19 bits.
double tf32(std::uint32_t bits) {
  return std::bit_cast<float>(bits & ~0x1fffu);
}

// Towards zero, which is what cards do after each few products; PTX promises no more.
float cut_off(double x) {
  const auto nearest = static_cast<float>(x);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) -
                              (std::abs(double{nearest}) > std::abs(x)));
}

// By the first lane that comes, for its warp.
void multiply(emulation::LaneBoard* lanes) {
  double a[kRows][kDepth], b[kDepth][kCols], d[kRows][kCols];
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const unsigned g = lane / kQuad, t = lane % kQuad;
    for (unsigned i = 0; i < 4; ++i) {
      a[g + i % 2 * 8][t + i / 2 * 4] = tf32(lanes[lane].a[i]);
      d[g + i / 2 * 8][2 * t + i % 2] = lanes[lane].d[i];
    }
    for (unsigned i = 0; i < 2; ++i) b[t + i * 4][g] = tf32(lanes[lane].b[i]);
  }
  for (unsigned row = 0; row < kRows; ++row) {
    for (unsigned first = 0; first < kDepth; first += 4) {
      for (unsigned k = first; k < first + 4; ++k) {
        for (unsigned col = 0; col < kCols; ++col) d[row][col] += a[row][k] * b[k][col];
      }
      for (unsigned col = 0; col < kCols; ++col) d[row][col] = cut_off(d[row][col]);
    }
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    for (unsigned i = 0; i < 4; ++i) {
      lanes[lane].d[i] = static_cast<float>(d[lane / kQuad + i / 2 * 8][lane % kQuad * 2 + i % 2]);
    }
  }
  lanes[0].is_done = true;
}

}  // namespace

void emulated_mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  emulation::LaneBoard* lanes =
      emulation::exchange({.a = {a[0], a[1], a[2], a[3]}, .b = {b[0], b[1]}, .d = {d[0], d[1], d[2], d[3]}});
  if (!lanes[0].is_done) multiply(lanes);
  const auto& own = lanes[threadIdx.x % kWarp].d;
  for (unsigned i = 0; i < 4; ++i) d[i] = own[i];
}
