// Logits of a model, for other frameworks to compare with.
//
//   hf_trace PLACE INPUTS LOGITS
//
// PLACE is a folder of Hugging Face's transformers, or a run of `trireme train`; INPUTS a safetensors file
// with "tokens" [B, T] int32 or "images" [B, S, S, 3] fp32; LOGITS is written, with "logits" [B, T, vocab] or
// [B, classes]. One thread, fp32.
#include <fmt/format.h>

#include <filesystem>

#include "launcher/families/hf_exchange.h"
#include "launcher/job/build.h"
#include "launcher/state/initial_weights.h"
#include "launcher/state/run_checkpoint.h"
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
    load_model(engine, *open_initial_weights(job.model).source);
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
  const SafetensorsTensor& inputs = file.tensors().front();
  const std::vector<std::int64_t>& shape = inputs.shape;
  HostBatch batch;
  std::vector<std::int64_t> rows;  // dims of the logits except the last
  if (inputs.name == "images") {
    batch.input_shape = {shape.at(0), shape.at(1), shape.at(2), shape.at(3)};
    batch.input_dtype = DType::kFloat32;
    rows = {shape.at(0)};
  } else {
    batch.input_shape = {shape.at(0), shape.at(1)};
    batch.input_dtype = DType::kInt32;
    rows = shape;
  }
  batch.inputs.assign(inputs.data.begin(), inputs.data.end());
  const std::vector<float> logits = logits_of(place, batch);
  auto count = static_cast<std::int64_t>(logits.size());
  for (const std::int64_t dim : rows) count /= dim;
  rows.push_back(count);
  SafetensorsWriter writer(out, {{"logits", "F32", rows}});
  writer.append(logits);
  writer.commit();
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: hf_trace PLACE INPUTS LOGITS\n");
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
