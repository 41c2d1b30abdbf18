// Logits of a model, for other frameworks to compare with.
//
//   hf_trace PLACE TOKENS LOGITS
//
// PLACE is a folder of Hugging Face's transformers, or a run of `trireme train`; TOKENS a safetensors file
// with "tokens" [B, T] int32; LOGITS is written, with "logits" [B, T, vocab]. One thread, fp32.
#include <fmt/format.h>

#include <filesystem>

#include "launcher/families/hf_exchange.h"
#include "launcher/train/build.h"
#include "launcher/train/run_checkpoint.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/safetensors_writer.h"

namespace trireme {
namespace {

Engine engine_of(const JobConfig& job) {
  return Engine(build_blocks(job.model), LocalWorld(1).communicator(0),
                {.threads = 1, .optimizer = {.kind = OptimizerConfig::Kind::kSgd}});
}

JobConfig job_of_folder(const std::filesystem::path& folder) {
  JobConfig job;
  job.model = model_of_hf_folder(folder);
  job.model.init_from = folder.string();
  job.data.kind = DataKind::kSynthetic;
  return resolve(job);
}

std::vector<float> logits_of(const std::filesystem::path& place, const HostBatch& batch) {
  if (std::filesystem::exists(place / kHfConfigFile)) {
    const JobConfig job = job_of_folder(place);
    Engine engine = engine_of(job);
    load_model(engine, *open_initial_weights(job.model));
    return engine.context().to_host(engine.infer(batch));
  }
  const Checkpoint checkpoint = open_checkpoint_or_run(place);
  Engine engine = engine_of(read_run_state(checkpoint).config);
  load_state(engine, checkpoint.folder, StateParts::kModel);
  return engine.context().to_host(engine.infer(batch));
}

void trace(const std::filesystem::path& place, const std::filesystem::path& in,
           const std::filesystem::path& out) {
  const SafetensorsReader file(in);
  const SafetensorsTensor& tokens = file.tensor("tokens");
  const std::int64_t rows = tokens.shape.at(0), length = tokens.shape.at(1);
  HostBatch batch{.input_shape = {rows, length}, .input_dtype = DType::kInt32};
  batch.inputs.assign(tokens.data.begin(), tokens.data.end());
  const std::vector<float> logits = logits_of(place, batch);
  const auto vocab = static_cast<std::int64_t>(logits.size()) / (rows * length);
  SafetensorsWriter writer(out, {{"logits", "F32", {rows, length, vocab}}});
  writer.append(logits);
  writer.commit();
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: hf_trace PLACE TOKENS LOGITS\n");
    return 2;
  }
  try {
    trireme::trace(argv[1], argv[2], argv[3]);
  } catch (const std::exception& e) {
    fmt::print(stderr, "hf_trace: {}\n", e.what());
    return 1;
  }
  return 0;
}
