#include "kernels/cpu/isa/convert.h"
#include "kernels/cpu/isa/pack.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

void read(const void* x, Element element, float* y, std::int64_t n) {
  read_row(x, element, y, n);
}

void write(const float* x, Element element, void* y, std::int64_t n) {
  write_row(x, element, y, n);
}

// kLanes rows of `cols` elements, `pitch` apart: whole squares, then the rest element by element.
void transpose_rows(const float* x, std::int64_t pitch, std::int64_t rows, std::int64_t cols, float* y,
                    std::int64_t y_pitch) {
  std::int64_t j = 0;
  for (; rows == kLanes && j + kLanes <= cols; j += kLanes) {
    // The hardware does not prefetch kLanes row streams at once. After the last column, fetches the next
    // kLanes rows.
    const std::int64_t ahead =
        j + 4 * kLanes < cols ? j + 4 * kLanes : kLanes * pitch + j + 4 * kLanes - cols;
    for (std::int64_t i = 0; i < kLanes; ++i) __builtin_prefetch(x + i * pitch + ahead);
    transpose_square(y + j * y_pitch, y_pitch, x + j, pitch);
  }
  for (; j < cols; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) y[j * y_pitch + i] = x[i * pitch + j];
  }
}

// kLanes rows at a time. fp32 is read in place; other elements go through a buffer in the L1 cache, in pieces
// of kRun elements.
void read_transposed(const TransposedRows& a) {
  constexpr std::int64_t kRun = 256, kPitch = kRun + kLanes;  // not a power of two
  float buffer[kLanes * kPitch];
  for (std::int64_t row = 0; row < a.rows; row += kLanes) {
    const std::int64_t rows = a.rows - row < kLanes ? a.rows - row : kLanes;
    if (a.element == Element::kFp32) {
      const float* x = static_cast<const float*>(a.x) + row * a.x_pitch;
      transpose_rows(x, a.x_pitch, rows, a.cols, a.y + row, a.y_pitch);
      continue;
    }
    for (std::int64_t col = 0; col < a.cols; col += kRun) {
      const std::int64_t cols = a.cols - col < kRun ? a.cols - col : kRun;
      for (std::int64_t i = 0; i < rows; ++i) {
        read_row(advance(a.x, a.element, (row + i) * a.x_pitch + col), a.element, buffer + i * kPitch, cols);
      }
      transpose_rows(buffer, kPitch, rows, cols, a.y + col * a.y_pitch + row, a.y_pitch);
    }
  }
}

}  // namespace

const CastNumerics cast_numerics{.read = read, .write = write, .read_transposed = read_transposed};

}  // namespace trireme::cpu::TRIREME_ISA
