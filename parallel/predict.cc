#include "parallel/predict.h"

#include "parallel/comm/recording.h"

namespace trireme {

StepPrediction predict_step(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                            const SampleSpec& sample, int num_ranks, int rank) {
  options.device = {DeviceType::kMeta};
  options.threads = 1;
  options.memory_limit = std::nullopt;
  Engine engine(blocks, std::make_shared<RecordingCommunicator>(rank, num_ranks), options);
  const BatchSource shapes_only = [&](std::int64_t, std::int64_t count) {
    return HostBatch{.input_shape = sample.input.batched(count),
                     .target_shape = sample.target.batched(count),
                     .input_dtype = sample.input_dtype};
  };
  const StepResult result = engine.step(shapes_only, 1, 0.0);
  return {.memory = result.memory, .sent_bytes = result.sent_bytes};
}

}  // namespace trireme
