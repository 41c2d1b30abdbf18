#include "parallel/foresee/step_call_times.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "models/gpt.h"
#include "parallel/foresee/op_calls.h"

namespace trireme {
namespace {

// Exactly the kernels and sizes that the meta device records have times.
TEST(StepCallTimes, AreThoseOfTheStepsCalls) {
  const GptConfig config{.layers = 2, .hidden = 32, .heads = 4, .vocab = 128, .seq_len = 16};
  PlannedJob job{.blocks = std::make_shared<const BlockList>(build_gpt(config)),
                 .sample = {.input = {16}, .target = {16}}};
  job.options.global_batch = 4;
  job.options.micro_batch = 2;
  using Size = std::pair<std::string, double>;
  std::set<Size> recorded, timed;
  for (const OpCall& call : record_step(job).calls) recorded.emplace(kernel_of(call.shape), call.cost.bytes);
  const BatchSource source = [](std::int64_t, std::int64_t count) {
    HostBatch batch{.input_shape = {count, 16}, .target_shape = {count, 16}, .input_dtype = DType::kInt32};
    batch.inputs.resize(static_cast<std::size_t>(count) * 16 * 4);
    batch.targets.resize(static_cast<std::size_t>(count) * 16);
    return batch;
  };
  for (const TimedCall& call :
       time_calls_of_step(job, source, {.device = {DeviceType::kCpu}, .seconds = 0, .least_steps = 2})) {
    EXPECT_GT(call.us, 0) << call.kernel;
    EXPECT_TRUE(timed.emplace(call.kernel, call.cost.bytes).second) << call.kernel << " twice";
  }
  EXPECT_EQ(timed, recorded);
}

}  // namespace
}  // namespace trireme
