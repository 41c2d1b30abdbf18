// Trains a UNet from a folder of diffusers, and records the data that diffusers_parity.py compares.
//
//   unet_trace FOLDER MICRO_BATCH STEPS LR
//
// Reads the network in FOLDER and the samples in FOLDER/batch.safetensors (inputs, targets, weights,
// timesteps, and where the network has them condition and classes; images are [B, H, W, C]). Writes
// FOLDER/trace.safetensors (the prediction before the first step, gradients of step 1), FOLDER/trace.json
// (losses), and after the last step the network for diffusers in FOLDER/trained/unet.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/unet_diffusers.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hf_source.h"
#include "runtime/checkpoint/hf_writer.h"
#include "tests/parity/tensor_record.h"

namespace trireme {
namespace {

struct Options {
  std::filesystem::path folder;
  std::int64_t micro_batch, steps;
  double lr;
};

/// The samples of batch.safetensors.
class Samples {
 public:
  explicit Samples(const std::filesystem::path& path) : file_(path) {}
  std::int64_t count() const { return file_.tensor("inputs").shape[0]; }

  HostBatch read(std::int64_t first, std::int64_t count) const {
    HostBatch batch;
    batch.input_dtype = batch.target_dtype = DType::kFloat32;
    batch.input_shape = batch.target_shape = shape("inputs", count);
    const std::vector<float> inputs = read_rows(file_, "inputs", first, count);
    batch.inputs.resize(inputs.size() * sizeof(float));
    std::memcpy(batch.inputs.data(), inputs.data(), batch.inputs.size());
    batch.number_targets = read_rows(file_, "targets", first, count);
    batch.target_weights = read_rows(file_, "weights", first, count);
    batch.timesteps = read_rows(file_, "timesteps", first, count);
    if (file_.has("condition")) {
      batch.condition = read_rows(file_, "condition", first, count);
      batch.condition_shape = shape("condition", count);
    }
    if (file_.has("classes")) {
      for (const float row : read_rows(file_, "classes", first, count))
        batch.classes.push_back(static_cast<int>(row));
    }
    return batch;
  }

 private:
  Shape shape(const std::string& name, std::int64_t count) const {
    const std::vector<std::int64_t>& dims = file_.tensor(name).shape;
    return dims.size() == 4 ? Shape{count, dims[1], dims[2], dims[3]} : Shape{count, dims[1], dims[2]};
  }

  SafetensorsReader file_;
};

void trace(const Options& o, const std::shared_ptr<Communicator>& comm) {
  const HfConfig config(o.folder);
  const UnetConfig unet = unet_from_diffusers(config);
  const HfModel hf = unet_to_diffusers(unet, 0);
  const Samples samples(o.folder / "batch.safetensors");
  Engine engine(build_unet(unet), comm,
                {.threads = 2,
                 .global_batch = samples.count(),
                 .micro_batch = o.micro_batch,
                 .optimizer = {.kind = OptimizerConfig::Kind::kSgd, .weight_decay = 0.0f, .momentum = 0.9f}});
  load_model(engine, HfSource(o.folder, hf));
  const auto source = [&](std::int64_t first, std::int64_t count) { return samples.read(first, count); };
  TensorRecord file;
  file.add("prediction", engine, engine.infer(samples.read(0, samples.count())));
  engine.observe_gradients([&](const std::string& name, const Tensor& gradient) {
    if (engine.steps_done() == 0) file.add("gradient." + name, engine, gradient);
  });
  nlohmann::json losses = nlohmann::json::array();
  for (std::int64_t step = 0; step < o.steps; ++step) {
    losses.push_back(engine.step(source, samples.count(), o.lr).loss);
  }
  file.write(o.folder / "trace.safetensors");
  nlohmann::json parts;  // the tensors of diffusers that make one of ours
  for (const HfTensor& tensor : hf.tensors) {
    for (const HfPart& part : tensor.parts) parts[tensor.name].push_back(part.name);
  }
  std::ofstream(o.folder / "trace.json")
      << nlohmann::json{{"losses", losses}, {"parts", parts}, {"notes", config.notes()}}.dump() << "\n";
  std::filesystem::create_directories(o.folder / "state");
  std::filesystem::create_directories(o.folder / "trained");
  save_state(engine, o.folder / "state");
  const SafetensorsReader trained(o.folder / "state" / kModelFile);
  write_hf_folder(MergedModel(trained, {}), hf, DType::kFloat32, {o.folder / "trained" / kDiffusersNetwork});
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  if (argc != 5) {
    fmt::print(stderr, "usage: unet_trace FOLDER MICRO_BATCH STEPS LR\n");
    return 2;
  }
  try {
    const Options options{.folder = argv[1],
                          .micro_batch = std::stoll(argv[2]),
                          .steps = std::stoll(argv[3]),
                          .lr = std::stod(argv[4])};
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) { trace(options, comm); });
  } catch (const std::exception& e) {
    fmt::print(stderr, "unet_trace: {}\n", e.what());
    return 1;
  }
  return 0;
}
