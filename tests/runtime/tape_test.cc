#include "runtime/tape.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/local_parameters.h"
#include "runtime/ops/add.h"
#include "runtime/ops/linear.h"

namespace trireme {
namespace {

struct Fixture : ::testing::Test {
  Context ctx = Context::create({DeviceType::kCpu}, 1);
  LocalParameters params{ctx, std::vector<ParameterSpec>{{.name = "w", .shape = {2, 2}}}, "op", 0};
  Tape tape;

  void SetUp() override {
    ctx.parameters = &params;
    const std::vector<float> w = {1, 2, 3, 4};
    ctx.backend->copy_from_host(ctx.exec, params.value({0}), w.data());
    ctx.tape = &tape;
  }
  Tensor vector(float a, float b) {
    return ctx.from_host(std::vector<float>{a, b}.data(), {1, 2}, DType::kFloat32);
  }
};

using TapeTest = Fixture;

TEST_F(TapeTest, AddsGradientsThatMeetWithoutTouchingSharedMemory) {
  const Tensor x = tape.watch(vector(1, 1));
  const Tensor y = ops::add(ctx, x, ops::add(ctx, x, x));
  const Tensor seed = vector(1, 10);
  const std::vector<Tensor> dx = tape.backward(ctx, {{y.id(), seed}}, {x.id()});
  EXPECT_EQ(ctx.to_host(dx[0]), (std::vector<float>{3, 30}));
  EXPECT_EQ(ctx.to_host(seed), (std::vector<float>{1, 10})) << "the caller's seed was written";
}

TEST_F(TapeTest, ASecondUseOfAParameterAccumulates) {
  const Tensor x = tape.watch(vector(1, 2));
  const Tensor y = ops::linear(ctx, ops::linear(ctx, x, {0}), {0});
  tape.backward(ctx, {{y.id(), vector(1, 0)}}, {x.id()});
  // y = W W x: dW = dy (Wx)^T + (W^T dy) x^T with dy = (1, 0), Wx = (5, 11), W^T dy = (1, 2).
  EXPECT_EQ(ctx.to_host(params.gradient_of({0})), (std::vector<float>{5 + 1, 11 + 2, 2, 4}));
}

TEST_F(TapeTest, FreesWhatItSavedAndSkipsWhatGetsNoGradient) {
  const std::int64_t before = ctx.allocator->stats().current[MemoryCategory::kActivations];
  {
    const Tensor x = tape.watch(vector(1, 2));
    const Tensor used = ops::linear(ctx, x, {0});
    const Tensor unused = ops::linear(ctx, x, {0});
    EXPECT_EQ(tape.num_nodes(), 2u);
    EXPECT_EQ(tape.saved_bytes(), 8) << "both nodes save the same x";
    EXPECT_NE(tape.to_string().find("linear fp32[1, 2]"), std::string::npos) << tape.to_string();
    tape.backward(ctx, {{used.id(), vector(1, 1)}}, {x.id()});
  }
  EXPECT_EQ(tape.num_nodes(), 0u);
  EXPECT_EQ(ctx.allocator->stats().current[MemoryCategory::kActivations], before);
  EXPECT_THROW(tape.backward(ctx, {{5, Tensor()}}, {}), Error);
}

/// A loss whose gradient of x is (1, 1), and a loss that takes the gradient of its output without checking
/// is_unit().
struct LossBackward {
  ValueId x = kNoValue;
  std::string name() const { return "own_loss"; }
  std::vector<Tensor> saved() const { return {}; }
  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    EXPECT_TRUE(gradients.is_unit(y));
    gradients.add(ctx, x, ctx.from_host(std::vector<float>{1, 1}.data(), {1, 2}, DType::kFloat32));
  }
};
struct CarelessBackward {
  std::string name() const { return "careless_loss"; }
  std::vector<Tensor> saved() const { return {}; }
  void backward(Context&, Gradients& gradients, ValueId y) const { gradients.take(y); }
};

TEST_F(TapeTest, ALossThatTakesItsGradientIsNamedWithWhatToDo) {
  const Tensor loss = recorded(ctx, ctx.zeros({}), CarelessBackward{});
  try {
    tape.backward(ctx, {{loss.id(), Tensor()}}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_NE(std::string(error.what())
                  .find("backward of op 'careless_loss': the gradient of a loss is the number 1"),
              std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("asks gradients.is_unit(y)"), std::string::npos) << error.what();
  }
}

TEST_F(TapeTest, ASumOfLossesIsALoss) {
  const Tensor x = tape.watch(vector(1, 2));
  const auto loss = [&] { return recorded(ctx, ctx.zeros({}), LossBackward{.x = x.id()}); };
  const Tensor sum = ops::add(ctx, loss(), ops::add(ctx, loss(), loss()));
  const std::vector<Tensor> dx = tape.backward(ctx, {{sum.id(), Tensor()}}, {x.id()});
  EXPECT_EQ(ctx.to_host(dx[0]), (std::vector<float>{3, 3}));
  const Tensor twice = loss();
  const Tensor other = ops::add(ctx, twice, twice);
  EXPECT_THROW(tape.backward(ctx, {{other.id(), Tensor()}}, {}), Error) << "its gradient would be 2";
}

TEST_F(TapeTest, RecordsNothingWithoutATape) {
  ctx.tape = nullptr;
  EXPECT_EQ(ops::linear(ctx, vector(1, 2), {0}).id(), kNoValue);
}

}  // namespace
}  // namespace trireme
