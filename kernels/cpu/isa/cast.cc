#include "kernels/cpu/isa/convert.h"
#include "kernels/cpu/isa/pack.h"
#include "kernels/cpu/isa/tables.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

void read(const void* x, Element element, float* y, std::int64_t n) {
  read_row(x, element, y, n);
}

void write(const float* x, Element element, void* y, std::int64_t n) {
  write_row(x, element, y, n);
}

// kLanes rows at a time, in pieces of kRun elements, through a buffer in the first cache.
void read_transposed(const TransposedRows& a) {
  constexpr std::int64_t kRun = 256, kPitch = kRun + kLanes;  // not a power of two apart
  float buffer[kLanes * kPitch];
  for (std::int64_t row = 0; row < a.rows; row += kLanes) {
    const std::int64_t rows = a.rows - row < kLanes ? a.rows - row : kLanes;
    for (std::int64_t col = 0; col < a.cols; col += kRun) {
      const std::int64_t cols = a.cols - col < kRun ? a.cols - col : kRun;
      for (std::int64_t i = 0; i < rows; ++i) {
        read_row(advance(a.x, a.element, (row + i) * a.x_pitch + col), a.element, buffer + i * kPitch, cols);
      }
      float* y = a.y + col * a.y_pitch + row;
      std::int64_t j = 0;
      for (; rows == kLanes && j + kLanes <= cols; j += kLanes) {
        transpose_square(y + j * a.y_pitch, a.y_pitch, buffer + j, kPitch);
      }
      for (; j < cols; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) y[j * a.y_pitch + i] = buffer[i * kPitch + j];
      }
    }
  }
}

}  // namespace

const CastNumerics cast_numerics{.read = read, .write = write, .read_transposed = read_transposed};

}  // namespace trireme::cpu::TRIREME_ISA
