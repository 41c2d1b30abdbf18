#include "parallel/foresee/step_call_times.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

#include "models/gpt.h"
#include "parallel/foresee/call_times.h"
#include "parallel/foresee/op_calls.h"

namespace trireme {
namespace {

PlannedJob small_job() {
  const GptConfig config{.layers = 2, .hidden = 32, .heads = 4, .vocab = 128, .seq_len = 16};
  PlannedJob job{.blocks = std::make_shared<const BlockList>(build_gpt(config)),
                 .sample = {.input = {16}, .target = {16}}};
  job.options.global_batch = 4;
  job.options.micro_batch = 2;
  return job;
}

// Exactly the kernels and sizes that the meta device records have times.
TEST(StepCallTimes, AreThoseOfTheStepsCalls) {
  const PlannedJob job = small_job();
  using Size = std::tuple<std::string, double, double>;
  std::set<Size> recorded, timed;
  for (const OpCall& call : record_step(job).calls) {
    recorded.emplace(kernel_of(call.shape), call.cost.bytes, call.shape.inner);
  }
  const BatchSource source = [](std::int64_t, std::int64_t count) {
    HostBatch batch{.input_shape = {count, 16}, .target_shape = {count, 16}, .input_dtype = DType::kInt32};
    batch.inputs.resize(static_cast<std::size_t>(count) * 16 * 4);
    batch.targets.resize(static_cast<std::size_t>(count) * 16);
    return batch;
  };
  for (const TimedCall& call :
       time_calls_of_step(job, source, {.device = {DeviceType::kCpu}, .seconds = 0, .least_steps = 2})) {
    EXPECT_GT(call.us, 0) << call.kernel;
    EXPECT_TRUE(timed.emplace(call.kernel, call.cost.bytes, call.inner).second) << call.kernel << " twice";
  }
  EXPECT_EQ(timed, recorded);
}

// A GPT's forward products add a bias; the products of backward are plain.
TEST(CallTimes, ProductsAreAlsoTimedWithoutTheirEpilogues) {
  const CallTimesOptions options{.device = {DeviceType::kCpu}, .ms_a_call = 0.1, .unfused = true};
  int fused = 0, plain = 0;
  measure_call_times(record_step(small_job()), options, [&](const CallTime& time) {
    EXPECT_GT(time.us, 0) << time.op;
    (time.unfused_us > 0 ? fused : plain) += 1;
    if (time.unfused_us > 0) {
      EXPECT_EQ(time.op + std::string(name(time.spent)), "matmulforward");
    }
  });
  EXPECT_EQ(fused, 4);  // queries, keys and values; out; up; down
  EXPECT_GT(plain, 10);
}

}  // namespace
}  // namespace trireme
