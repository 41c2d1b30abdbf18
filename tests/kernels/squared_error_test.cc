#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr float kInverse = 0.125f, kScale = 8.0f;

struct Case {
  Shape shape;
  DType dtype = DType::kFloat32;
  bool has_weights = true, has_scale = true;

  std::int64_t samples() const { return shape[0]; }
  std::int64_t sample_elems() const { return shape.num_elems() / shape[0]; }
};

struct Inputs {
  std::vector<float> prediction, target, weights;
};

class SquaredErrorTest : public KernelTest {
 protected:
  Inputs inputs_of(const Case& c) {
    Inputs in{.prediction = random(c.shape.num_elems(), 1.0f, c.dtype),
              .target = random(c.shape.num_elems(), 2.0f),
              .weights = random(c.samples(), 1.0f)};
    for (float& weight : in.weights) weight += 1.5f;
    return in;
  }

  // Sample errors, loss, gradient; the prediction after a call without gradient.
  static Outputs run(const Rig& rig, const Case& c, const Inputs& in) {
    const DeviceArray gradient = rig.upload(c.shape, in.prediction, c.dtype),
                      read = rig.upload(c.shape, in.prediction, c.dtype);
    const DeviceArray target = rig.upload(c.shape, in.target),
                      weights = rig.upload({c.samples()}, in.weights);
    const DeviceArray errors = rig.poisoned({c.samples()}), again = rig.poisoned({c.samples()});
    const DeviceArray loss = rig.poisoned({}), scale = rig.scalar(kScale);
    SquaredErrorArgs args{.prediction = gradient,
                          .target = target,
                          .sample_errors = errors,
                          .loss = loss,
                          .inv_num_targets = kInverse,
                          .write_gradient = true};
    if (c.has_weights) args.sample_weights = weights;
    if (c.has_scale) args.gradient_scale = scale;
    rig.run(args);
    rig.run(SquaredErrorArgs{.prediction = read, .target = target, .sample_errors = again});
    EXPECT_TRUE(same_bits(errors.download(), again.download()));
    return {errors.download(), loss.download(), gradient.download(), read.download()};
  }
};

TEST_P(SquaredErrorTest, MatchesReference) {
  for (const Shape& shape :
       {Shape{1}, Shape{1, 3}, Shape{3, 5, 7, 3}, Shape{2, 2049}, Shape{2, 33, 32, 64}, Shape{300, 2}}) {
    for (const DType dtype : kFloatTypes) {
      for (const bool has_weights : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} weights {}", shape.to_string(), name(dtype), has_weights));
        const Case c{shape, dtype, has_weights, has_weights};
        const Inputs in = inputs_of(c);
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) { return run(rig, c, in); });
        std::vector<double> errors(c.samples()), gradient(in.prediction.size());
        double loss = 0;
        const auto elems = static_cast<double>(c.sample_elems());
        for (std::int64_t i = 0; i < shape.num_elems(); ++i) {
          const std::int64_t sample = i / c.sample_elems();
          const double weight = has_weights ? in.weights[sample] : 1.0, scale = has_weights ? kScale : 1.0;
          const double apart = double{in.prediction[i]} - in.target[i];
          errors[sample] += apart * apart / elems;
          loss += kInverse * weight * apart * apart / elems;
          gradient[i] = 2 * apart / elems * weight * kInverse * scale;
        }
        expect_close(out[0], errors, Tolerance(kForwardTolerance).for_terms(4.0, errors.size()), "errors");
        expect_close(out[1], {loss}, Tolerance(kForwardTolerance).for_terms(loss, 1), "loss");
        expect_close(out[2], gradient, tolerance_of(dtype, kForwardTolerance).for_terms(8.0, gradient.size()),
                     "gradient");
        EXPECT_TRUE(same_bits(out[3], in.prediction)) << "the prediction was written";
      }
    }
  }
}

TEST_P(SquaredErrorTest, ASampleDoesNotDependOnTheBatch) {
  const Case c{{4, 9, 1000}};
  const Inputs in = inputs_of(c);
  const Outputs all = run(rig(), c, in);
  const auto part = [&](const std::vector<float>& from, std::int64_t elems) {
    return std::vector<float>(from.begin() + 2 * elems, from.begin() + 3 * elems);
  };
  const Case one{{1, 9, 1000}};
  const Outputs alone = run(
      rig(), one,
      {.prediction = part(in.prediction, 9000), .target = part(in.target, 9000), .weights = {in.weights[2]}});
  EXPECT_TRUE(same_bits(alone[0], part(all[0], 1)));
  EXPECT_TRUE(same_bits(alone[2], part(all[2], 9000)));
}

TEST_P(SquaredErrorTest, NanAndInfinity) {
  const Case c{{3, 40}};
  Inputs in = inputs_of(c);
  in.prediction[45] = std::numeric_limits<float>::quiet_NaN();
  in.prediction[90] = std::numeric_limits<float>::infinity();
  const Outputs out = run(rig(), c, in);
  EXPECT_TRUE(std::isfinite(out[0][0]) && std::isnan(out[0][1]) && std::isinf(out[0][2]));
  EXPECT_TRUE(std::isnan(out[1][0]));
  for (std::int64_t i = 0; i < 120; ++i) EXPECT_EQ(std::isfinite(out[2][i]), i != 45 && i != 90) << i;
}

TRIREME_INSTANTIATE_KERNEL_TEST(SquaredErrorTest);

}  // namespace
}  // namespace trireme::testing
