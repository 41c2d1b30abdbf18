#include <cmath>
#include <limits>

#include "runtime/base/error.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

struct LstmCase {
  std::int64_t samples, steps, units;
  DType dtype = DType::kFloat32;
  bool has_state = true;  // h0, c0, dh0 and dc0
  bool in_place = true;
  MathMode math = MathMode::kFp32;

  std::int64_t states() const { return samples * units; }
  std::int64_t outputs() const { return samples * steps * units; }
};

// The third has a piece of units that is not full, the fourth a sum in two parts in the backward, and the
// last one in both passes.
constexpr LstmCase kCases[] = {{1, 1, 1}, {3, 5, 7}, {20, 3, 67}, {2, 4, 134}, {1, 2, 520}};

struct LstmInputs {
  Floats x, w, bias, h0, c0, dh;
};

// Results of the op; h, c and dgates are in the order [B, T, ...].
struct LstmResults {
  Floats gates, h, c, h_n, c_n, dgates, dh0, dc0;

  static LstmResults of(Outputs out, const LstmCase& c) {
    LstmResults r{std::move(out[0]), std::move(out[1]), std::move(out[2]),
                  std::move(out[3]), std::move(out[4]), std::move(out[5])};
    if (c.has_state) r.dh0 = std::move(out[6]), r.dc0 = std::move(out[7]);
    return r;
  }
  Outputs all() const { return {gates, h, c, h_n, c_n, dgates, dh0, dc0}; }
};

double sigmoid_of(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

class LstmTest : public KernelTest {
 protected:
  LstmInputs inputs_of(const LstmCase& c) {
    return {.x = random(4 * c.outputs(), 2.0f, c.dtype),
            .w = random(4 * c.units * c.units, 1.5f / std::sqrt(static_cast<float>(c.units)), c.dtype),
            .bias = random(4 * c.units, 1.0f, c.dtype),
            .h0 = random(c.states(), 1.0f, c.dtype),
            .c0 = random(c.states(), 2.0f),
            .dh = random(c.outputs(), 1.0f, c.dtype)};
  }

  static Outputs run(const Rig& rig, const LstmCase& c, const LstmInputs& in) {
    const Shape gates_shape{c.samples, c.steps, 4 * c.units}, shape{c.samples, c.steps, c.units};
    const Shape state{c.samples, c.units};
    const DeviceArray x = rig.upload(gates_shape, in.x, c.dtype),
                      bias = rig.upload({4 * c.units}, in.bias, c.dtype),
                      w = rig.upload({4 * c.units, c.units}, in.w, c.dtype);
    const DeviceArray h0 = rig.upload(state, in.h0, c.dtype), c0 = rig.upload(state, in.c0);
    const DeviceArray other_gates = rig.poisoned(gates_shape, c.dtype);
    const DeviceArray other_dgates = rig.poisoned(gates_shape, c.dtype);
    const DeviceArray h = rig.poisoned(shape, c.dtype), cells = rig.poisoned(shape);
    const DeviceArray h_n = rig.poisoned(state, c.dtype), c_n = rig.poisoned(state);
    const DeviceArray dh = rig.upload(shape, in.dh, c.dtype), dh0 = rig.poisoned(state, c.dtype),
                      dc0 = rig.poisoned(state);
    const DeviceArray& gates = c.in_place ? x : other_gates;
    LstmFwdArgs fwd{.x = x,
                    .w_hh = w,
                    .bias = bias,
                    .h = h,
                    .c = cells,
                    .gates = gates,
                    .h_n = h_n,
                    .c_n = c_n,
                    .math = c.math};
    if (c.has_state) fwd.h0 = h0, fwd.c0 = c0;
    rig.run(fwd);
    Outputs out{gates.download(), h.download(), cells.download(), h_n.download(), c_n.download()};
    const DeviceArray& dgates = c.in_place ? gates : other_dgates;
    LstmBwdArgs bwd{.gates = gates, .c = cells, .dh = dh, .w_hh = w, .dgates = dgates, .math = c.math};
    if (c.has_state) bwd.c0 = c0, bwd.dh0 = dh0, bwd.dc0 = dc0;
    rig.run(bwd);
    out.push_back(dgates.download());
    if (c.has_state) out.push_back(dh0.download()), out.push_back(dc0.download());
    return out;
  }

  LstmResults results_of(const LstmCase& c, const LstmInputs& in) const {
    return LstmResults::of(same_bits_for_all_threads([&](const Rig& rig) { return run(rig, c, in); }), c);
  }

  // Factors of products, as the op reads them.
  static float factor(float x, const LstmCase& c) {
    return c.math == MathMode::kTf32 ? rounded(x, kTf32) : x;
  }

  // Every step from the op's own result of the step before it. So each value has the error of one step, and
  // of one rounding.
  static void expect_forward(const LstmCase& c, const LstmInputs& in, const LstmResults& r,
                             double tolerance) {
    Doubles gates(4 * c.outputs()), h(c.outputs()), cells(c.outputs()), h_n(c.states()), c_n(c.states());
    for (std::int64_t b = 0; b < c.samples; ++b) {
      for (std::int64_t at = b * c.steps; at < (b + 1) * c.steps; ++at) {
        const bool is_first = at == b * c.steps;
        const float* before = is_first ? in.h0.data() + b * c.units : r.h.data() + (at - 1) * c.units;
        const float* c_before = is_first ? in.c0.data() + b * c.units : r.c.data() + (at - 1) * c.units;
        for (std::int64_t u = 0; u < c.units; ++u) {
          double a[4];
          for (std::int64_t g = 0; g < 4; ++g) {
            const std::int64_t row = g * c.units + u;
            a[g] = double{in.x[4 * at * c.units + row]} + in.bias[row];
            for (std::int64_t k = 0; (!is_first || c.has_state) && k < c.units; ++k) {
              a[g] += double{factor(before[k], c)} * factor(in.w[row * c.units + k], c);
            }
            gates[4 * at * c.units + row] = a[g] = g == 2 ? std::tanh(a[g]) : sigmoid_of(a[g]);
          }
          const double old = is_first && !c.has_state ? 0.0 : c_before[u];
          cells[at * c.units + u] = a[1] * old + a[0] * a[2];
          h[at * c.units + u] = a[3] * std::tanh(cells[at * c.units + u]);
        }
      }
      for (std::int64_t u = 0; u < c.units; ++u) {
        h_n[b * c.units + u] = r.h[((b + 1) * c.steps - 1) * c.units + u];
        c_n[b * c.units + u] = r.c[((b + 1) * c.steps - 1) * c.units + u];
      }
    }
    const Tolerance stored = tolerance_of(c.dtype, tolerance);
    expect_close(r.gates, gates, stored.for_terms(1.0, gates.size()), "gates");
    expect_close(r.h, h, stored.for_terms(1.0, h.size()), "h");
    expect_close(r.c, cells, Tolerance(tolerance).for_terms(4.0, cells.size()), "c");
    expect_close(r.h_n, h_n, 0.0, "h_n");
    expect_close(r.c_n, c_n, 0.0, "c_n");
  }

  // The gradients of the gates of each step, from the op's own ones of the step after it.
  static void expect_backward(const LstmCase& c, const LstmInputs& in, const LstmResults& r,
                              double tolerance) {
    Doubles dgates(4 * c.outputs()), dh0(c.states()), dc0(c.states());
    const auto from_next = [&](std::int64_t at, std::int64_t u) {
      double sum = 0;
      for (std::int64_t row = 0; row < 4 * c.units; ++row) {
        sum += double{factor(r.dgates[4 * at * c.units + row], c)} * factor(in.w[row * c.units + u], c);
      }
      return sum;
    };
    for (std::int64_t b = 0; b < c.samples; ++b) {
      for (std::int64_t u = 0; u < c.units; ++u) {
        double dc = 0;
        for (std::int64_t at = (b + 1) * c.steps - 1; at >= b * c.steps; --at) {
          const bool is_first = at == b * c.steps, is_last = at == (b + 1) * c.steps - 1;
          const float* gate = r.gates.data() + 4 * at * c.units + u;
          const double i = gate[0], f = gate[c.units], g = gate[2 * c.units], o = gate[3 * c.units];
          const double dh = in.dh[at * c.units + u] + (is_last ? 0.0 : from_next(at + 1, u));
          const double squashed = std::tanh(double{r.c[at * c.units + u]});
          dc += dh * o * (1 - squashed * squashed);
          const double old = !is_first     ? r.c[(at - 1) * c.units + u]
                             : c.has_state ? in.c0[b * c.units + u]
                                           : 0.0;
          double* d = dgates.data() + 4 * at * c.units + u;
          d[0] = dc * g * i * (1 - i);
          d[c.units] = dc * old * f * (1 - f);
          d[2 * c.units] = dc * i * (1 - g * g);
          d[3 * c.units] = dh * squashed * o * (1 - o);
          dc *= f;
        }
        dc0[b * c.units + u] = dc;
        dh0[b * c.units + u] = from_next(b * c.steps, u);
      }
    }
    const Tolerance stored = tolerance_of(c.dtype, tolerance);
    expect_close(r.dgates, dgates, stored.for_terms(2.0, dgates.size()), "dgates");
    if (!c.has_state) return;
    expect_close(r.dh0, dh0, stored.for_terms(4.0, dh0.size()), "dh0");
    expect_close(r.dc0, dc0, Tolerance(tolerance).for_terms(4.0, dc0.size()), "dc0");
  }
};

TEST_P(LstmTest, MatchesReference) {
  for (LstmCase c : kCases) {
    for (const DType dtype : kFloatTypes) {
      c.dtype = dtype;
      const LstmInputs in = inputs_of(c);
      for (const bool has_state : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{} [{}, {}, {}], state {}", name(dtype), c.samples, c.steps, c.units, has_state));
        c.has_state = has_state;
        c.in_place = true;
        const LstmResults r = results_of(c, in);
        c.in_place = false;
        const LstmResults apart = results_of(c, in);
        expect_forward(c, in, apart, kForwardTolerance);
        expect_backward(c, in, apart, kBackwardTolerance);
        const Outputs one = r.all(), other = apart.all();
        for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], other[i])) << i;
      }
    }
  }
}

// As in MatmulTest, a card may round its factors in another way.
TEST_P(LstmTest, Tf32RoundsTheFactors) {
  const LstmCase c{.samples = 3, .steps = 4, .units = 70, .math = MathMode::kTf32};
  const LstmInputs in = inputs_of(c);
  const LstmResults r = results_of(c, in);
  const bool is_cpu = GetParam() == DeviceType::kCpu;
  expect_forward(c, in, r, is_cpu ? kForwardTolerance : 1e-3);
  expect_backward(c, in, r, is_cpu ? kBackwardTolerance : 1e-3);
  LstmCase exact = c;
  exact.math = MathMode::kFp32;
  const LstmResults other = results_of(exact, in);
  EXPECT_GT(relative_error(r.h, {other.h.begin(), other.h.end()}), 1e-6) << "nothing was rounded";
}

// See [Note: LSTM].
TEST_P(LstmTest, ASampleDoesNotDependOnTheBatchNorOnLaterSteps) {
  if (GetParam() != DeviceType::kCpu)
    GTEST_SKIP() << "a library may sum in another order for another batch size";
  LstmCase c{.samples = 9, .steps = 6, .units = 150};
  const LstmInputs in = inputs_of(c);
  const LstmResults all = results_of(c, in);
  const std::int64_t row = c.steps * c.units;
  const auto part = [](const Floats& x, std::int64_t first, std::int64_t count) {
    return Floats(x.begin() + first, x.begin() + first + count);
  };
  for (const std::int64_t b : {0, 8}) {
    LstmCase one = c;
    one.samples = 1;
    const LstmInputs own{.x = part(in.x, 4 * b * row, 4 * row),
                         .w = in.w,
                         .bias = in.bias,
                         .h0 = part(in.h0, b * c.units, c.units),
                         .c0 = part(in.c0, b * c.units, c.units),
                         .dh = part(in.dh, b * row, row)};
    const LstmResults alone = results_of(one, own);
    EXPECT_TRUE(same_bits(alone.h, part(all.h, b * row, row)));
    EXPECT_TRUE(same_bits(alone.dgates, part(all.dgates, 4 * b * row, 4 * row)));
    EXPECT_TRUE(same_bits(alone.dh0, part(all.dh0, b * c.units, c.units)));
    for (const std::int64_t steps : {1, 2}) {
      one.steps = steps;
      LstmInputs early = own;
      early.x = part(own.x, 0, steps * 4 * c.units), early.dh = part(own.dh, 0, steps * c.units);
      EXPECT_TRUE(same_bits(results_of(one, early).h, part(all.h, b * row, steps * c.units)));
    }
  }
}

TEST_P(LstmTest, NanAndInfinity) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const LstmCase c{.samples = 2, .steps = 2, .units = 2};
  LstmInputs in = inputs_of(c);
  in.x.assign(in.x.size(), 0.0f);
  in.bias.assign(in.bias.size(), 0.0f);
  in.h0.assign(in.h0.size(), 0.0f);
  in.c0 = {1, 2, 3, kInfinity};
  // Gates [i0 i1 | f0 f1 | g0 g1 | o0 o1] of the first step of sample 0: saturated, and NaN.
  in.x[0] = kInfinity, in.x[2] = -kInfinity, in.x[4] = -kInfinity, in.x[6] = kInfinity;
  in.x[1] = kNan;
  const LstmResults r = results_of(c, in);
  expect_close({r.gates[0], r.gates[2], r.gates[4], r.gates[6]}, {1, 0, -1, 1}, 0.0, "saturated gates");
  EXPECT_EQ(r.c[0], -1.0f);
  EXPECT_NEAR(r.h[0], std::tanh(-1.0f), 1e-6f);
  EXPECT_TRUE(std::isnan(r.gates[1]) && std::isnan(r.c[1]) && std::isnan(r.h[1]));
  EXPECT_TRUE(std::isnan(r.h[2]) && std::isnan(r.h[3])) << "the product of the next step";
  EXPECT_EQ(r.c[5], kInfinity) << "of sample 1";
  EXPECT_EQ(r.h[5], 0.5f);
  EXPECT_TRUE(std::isnan(r.dgates[1]) && std::isnan(r.dh0[0]));
  EXPECT_FALSE(std::isnan(r.h[4])) << "samples are independent";
}

TEST_P(LstmTest, ShiftsSteps) {
  for (const DType dtype : kFloatTypes) {
    for (const bool has_first : {false, true}) {
      for (const std::int64_t steps : {1, 4}) {
        const std::int64_t samples = 3, cols = 5;
        const Floats x = random(samples * steps * cols, 1.0f, dtype),
                     first = random(samples * cols, 1.0f, dtype);
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const DeviceArray dev_x = rig.upload({samples, steps, cols}, x, dtype);
          const DeviceArray dev_first = rig.upload({samples, cols}, first, dtype);
          const DeviceArray y = rig.poisoned({samples, steps, cols}, dtype);
          ShiftStepsArgs args{.x = dev_x, .y = y};
          if (has_first) args.first = dev_first;
          rig.run(args);
          return {y.download()};
        });
        Floats expected;
        for (std::int64_t i = 0; i < samples * steps * cols; ++i) {
          const std::int64_t row = i / cols, start = row / steps * cols + i % cols;
          expected.push_back(row % steps > 0 ? x[i - cols] : has_first ? first[start] : 0.0f);
        }
        EXPECT_TRUE(same_bits(out[0], expected)) << name(dtype);
      }
    }
  }
}

TEST_P(LstmTest, RefusesMixedDtypes) {
  const Rig r = rig();
  const DeviceArray x = r.poisoned({1, 1, 8}), state = r.poisoned({1, 2}), h = r.poisoned({1, 1, 2}),
                    w = r.poisoned({8, 2}, DType::kBFloat16), bias = r.poisoned({8});
  EXPECT_THROW(r.run(LstmFwdArgs{
                   .x = x, .w_hh = w, .bias = bias, .h = h, .c = h, .gates = x, .h_n = state, .c_n = state}),
               Error);
}

TRIREME_INSTANTIATE_KERNEL_TEST(LstmTest);

}  // namespace
}  // namespace trireme::testing
