// Winograd's minimal filtering F(4 x 4, 3 x 3), a vector of channels at a time: see [Note: Winograd] in
// kernels/cpu/conv/winograd_conv.cc.
#include "kernels/cpu/isa/tile_gemm.h"
#include "kernels/cpu/numerics.h"

// Unrolled loops keep squares in registers. Under a sanitizer, which checks each access, unrolling would take
// minutes to compile.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRIREME_UNROLL(n)
#else
#define TRIREME_PRAGMA(x) _Pragma(#x)
#define TRIREME_UNROLL(n) TRIREME_PRAGMA(GCC unroll n)
#endif

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr int kIn = WinogradNumerics::kInput, kOut = WinogradNumerics::kOutput, kTaps = 3;

// The points are 0, +-kA, +-kB and infinity; all of these are exact.
constexpr float kA = 0.625f, kB = 1.5f;
constexpr float kA2 = kA * kA, kB2 = kB * kB, kA3 = kA2 * kA, kB3 = kB2 * kB;
// The reciprocal of the derivative of x (x^2 - a^2) (x^2 - b^2) at the points.
constexpr float kOf0 = 1.0f / (kA2 * kB2);
constexpr float kOfA = 1.0f / (2.0f * kA2 * (kA2 - kB2));
constexpr float kOfB = 1.0f / (2.0f * kB2 * (kB2 - kA2));

// One-dimensional transforms. `kStep` is the distance between elements.

/// B^T: 6 pixels to 6 points.
struct OfInput {
  static constexpr int kFrom = kIn, kTo = kIn;
  template <int kStep>
  static void apply(const Vector* d, Vector* v) {
    const Vector d1 = d[kStep], d2 = d[2 * kStep], d3 = d[3 * kStep], d4 = d[4 * kStep];
    v[0] = kA2 * kB2 * d[0] - (kA2 + kB2) * d2 + d4;
    const Vector even_a = d4 - kB2 * d2, odd_a = kA * (d3 - kB2 * d1);
    v[kStep] = even_a + odd_a;
    v[2 * kStep] = even_a - odd_a;
    const Vector even_b = d4 - kA2 * d2, odd_b = kB * (d3 - kA2 * d1);
    v[3 * kStep] = even_b + odd_b;
    v[4 * kStep] = even_b - odd_b;
    v[5 * kStep] = kA2 * kB2 * d1 - (kA2 + kB2) * d3 + d[5 * kStep];
  }
};

/// A: 4 pixels of a gradient to 6 points.
struct OfOutputGradient {
  static constexpr int kFrom = kOut, kTo = kIn;
  template <int kStep>
  static void apply(const Vector* d, Vector* w) {
    const Vector d0 = d[0], d1 = d[kStep], d2 = d[2 * kStep], d3 = d[3 * kStep];
    const Vector even_a = d0 + kA2 * d2, odd_a = kA * d1 + kA3 * d3;
    const Vector even_b = d0 + kB2 * d2, odd_b = kB * d1 + kB3 * d3;
    w[0] = d0;
    w[kStep] = even_a + odd_a;
    w[2 * kStep] = even_a - odd_a;
    w[3 * kStep] = even_b + odd_b;
    w[4 * kStep] = even_b - odd_b;
    w[5 * kStep] = d3;
  }
};

/// A^T: 6 points to 4 pixels.
struct ToOutput {
  static constexpr int kFrom = kIn, kTo = kOut;
  template <int kStep>
  static void apply(const Vector* m, Vector* y) {
    const Vector m0 = m[0], m5 = m[5 * kStep];
    const Vector sum_a = m[kStep] + m[2 * kStep], difference_a = m[kStep] - m[2 * kStep];
    const Vector sum_b = m[3 * kStep] + m[4 * kStep], difference_b = m[3 * kStep] - m[4 * kStep];
    y[0] = m0 + sum_a + sum_b;
    y[kStep] = kA * difference_a + kB * difference_b;
    y[2 * kStep] = kA2 * sum_a + kB2 * sum_b;
    y[3 * kStep] = kA3 * difference_a + kB3 * difference_b + m5;
  }
};

/// G: 3 taps to 6 points.
struct OfWeight {
  static constexpr int kFrom = kTaps, kTo = kIn;
  template <int kStep>
  static void apply(const Vector* g, Vector* u) {
    const Vector g0 = g[0], g1 = g[kStep], g2 = g[2 * kStep];
    const Vector even_a = g0 + kA2 * g2, odd_a = kA * g1, even_b = g0 + kB2 * g2, odd_b = kB * g1;
    u[0] = kOf0 * g0;
    u[kStep] = kOfA * (even_a + odd_a);
    u[2 * kStep] = kOfA * (even_a - odd_a);
    u[3 * kStep] = kOfB * (even_b + odd_b);
    u[4 * kStep] = kOfB * (even_b - odd_b);
    u[5 * kStep] = g2;
  }
};

/// G^T: 6 points to 3 taps of a gradient.
struct ToWeightGradient {
  static constexpr int kFrom = kIn, kTo = kTaps;
  template <int kStep>
  static void apply(const Vector* u, Vector* g) {
    const Vector u0 = u[0], u5 = u[5 * kStep];
    const Vector sum_a = kOfA * (u[kStep] + u[2 * kStep]), sum_b = kOfB * (u[3 * kStep] + u[4 * kStep]);
    const Vector difference_a = kOfA * (u[kStep] - u[2 * kStep]);
    const Vector difference_b = kOfB * (u[3 * kStep] - u[4 * kStep]);
    g[0] = kOf0 * u0 + sum_a + sum_b;
    g[kStep] = kA * difference_a + kB * difference_b;
    g[2 * kStep] = kA2 * sum_a + kB2 * sum_b + u5;
  }
};

/// Transforms `square`, whose rows are kIn apart, to T x T', columns first.
template <class T>
inline void transform(Vector* square) {
  TRIREME_UNROLL(6)
  for (int j = 0; j < T::kFrom; ++j) T::template apply<kIn>(square + j, square + j);
  TRIREME_UNROLL(6)
  for (int i = 0; i < T::kTo; ++i) T::template apply<1>(square + i * kIn, square + i * kIn);
}

inline void store_points(const Vector* square, float* to, std::int64_t pitch) {
  TRIREME_UNROLL(36)
  for (int f = 0; f < kIn * kIn; ++f) store(to + f * pitch, square[f]);
}

inline void load_points(Vector* square, const float* from, std::int64_t pitch) {
  TRIREME_UNROLL(36)
  for (int f = 0; f < kIn * kIn; ++f) square[f] = load(from + f * pitch);
}

// Pixels outside the image are 0.
template <class T>
void pixels_to_points(const WinogradPatch& patch, const float* x, const WinogradPoints& to) {
  const bool whole =
      patch.first_row == 0 && patch.first_col == 0 && patch.end_row == T::kFrom && patch.end_col == T::kFrom;
  for (std::int64_t c = 0; c < patch.channels; c += kLanes) {
    Vector square[kIn * kIn];
    const float* from = x + c;
    if (whole) {
      TRIREME_UNROLL(6)
      for (int i = 0; i < T::kFrom; ++i) {
        TRIREME_UNROLL(6)
        for (int j = 0; j < T::kFrom; ++j) {
          square[i * kIn + j] = load(from + i * patch.row_pitch + j * patch.channels);
        }
      }
    } else {
      for (int i = 0; i < T::kFrom; ++i) {
        for (int j = 0; j < T::kFrom; ++j) square[i * kIn + j] = Vector{};
      }
      for (int i = patch.first_row; i < patch.end_row; ++i) {
        for (int j = patch.first_col; j < patch.end_col; ++j) {
          square[i * kIn + j] = load(from + i * patch.row_pitch + j * patch.channels);
        }
      }
    }
    transform<T>(square);
    store_points(square, to.data + c / WinogradPoints::kPanel * to.panel_pitch + c % WinogradPoints::kPanel,
                 to.point_pitch);
  }
}

void points_to_output(const WinogradPatch& patch, const WinogradPoints& from, const float* bias,
                      const float* addend, float* y) {
  for (std::int64_t c = 0; c < patch.channels; c += kLanes) {
    Vector square[kIn * kIn];
    load_points(square,
                from.data + c / WinogradPoints::kPanel * from.panel_pitch + c % WinogradPoints::kPanel,
                from.point_pitch);
    transform<ToOutput>(square);
    const Vector shift = bias != nullptr ? load(bias + c) : Vector{};
    for (int i = 0; i < patch.end_row; ++i) {
      for (int j = 0; j < patch.end_col; ++j) {
        const std::int64_t at = i * patch.row_pitch + j * patch.channels + c;
        Vector value = square[i * kIn + j] + shift;
        if (addend != nullptr) value += load(addend + at);
        store(y + at, value);
      }
    }
  }
}

constexpr std::int64_t kBlock = WinogradNumerics::kWeightBlock;

void weight_to_points(const float* taps, bool flip, float* u, std::int64_t point_pitch) {
  for (std::int64_t n = 0; n < kBlock; n += kLanes) {
    Vector square[kIn * kIn];
    for (int t = 0; t < kTaps * kTaps; ++t) {
      const int from = flip ? kTaps * kTaps - 1 - t : t;
      square[t / kTaps * kIn + t % kTaps] = load(taps + from * kBlock + n);
    }
    transform<OfWeight>(square);
    store_points(square, u + n, point_pitch);
  }
}

void points_to_weight(const float* u, std::int64_t point_pitch, float* taps) {
  for (std::int64_t n = 0; n < kBlock; n += kLanes) {
    Vector square[kIn * kIn];
    load_points(square, u + n, point_pitch);
    transform<ToWeightGradient>(square);
    for (int t = 0; t < kTaps * kTaps; ++t) store(taps + t * kBlock + n, square[t / kTaps * kIn + t % kTaps]);
  }
}

void product(const WinogradProduct& p) {
  tile_gemm<ReadA::kRows>(p.rows, p.cols, p.depth, {p.a, p.a_pitch}, {p.b, p.b_pitch}, p.c, p.c_pitch,
                          Store::kOverwrite);
}

void product_of_columns(const WinogradProduct& p) {
  // Values that are read again for each strip of rows stay in the L1 cache.
  constexpr std::int64_t kDepth = 96;
  for (std::int64_t k = 0; k < p.depth; k += kDepth) {
    tile_gemm<ReadA::kColumns>(p.rows, p.cols, k + kDepth < p.depth ? kDepth : p.depth - k,
                               {p.a + k * p.a_pitch, p.a_pitch}, {p.b + k * p.b_pitch, p.b_pitch}, p.c,
                               p.c_pitch, p.accumulate || k > 0 ? Store::kAccumulate : Store::kOverwrite);
  }
}

}  // namespace

const WinogradNumerics winograd_numerics{.input_to_points = pixels_to_points<OfInput>,
                                         .output_gradient_to_points = pixels_to_points<OfOutputGradient>,
                                         .points_to_output = points_to_output,
                                         .weight_to_points = weight_to_points,
                                         .points_to_weight = points_to_weight,
                                         .product = product,
                                         .product_of_columns = product_of_columns};

}  // namespace trireme::cpu::TRIREME_ISA
