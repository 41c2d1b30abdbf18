// Trains an image model from weights with our names (torchvision's for resnet50 and vit), and records the
// data that resnet_parity.py and vit_parity.py compare.
//
//   image_trace MODEL FOLDER PIXELS MICRO_BATCH ACCUMULATION STEPS LR
//
// Reads FOLDER/model.safetensors and writes FOLDER/trace.safetensors (inputs, targets, logits of the first
// micro-batch before the first step, gradients of step 1, running statistics after it), FOLDER/trace.json
// (losses) and, after the last step, FOLDER/out/model.safetensors.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/cct.h"
#include "models/resnet.h"
#include "models/vit.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "tests/parity/tensor_record.h"
#include "tests/support/tiny_resnet.h"

namespace trireme {
namespace {

struct Options {
  std::string model;
  std::filesystem::path folder;
  std::int64_t pixels, micro_batch, accumulation, steps;
  double lr;
  std::int64_t global_batch() const { return micro_batch * accumulation; }
};

// The last three models have the sizes of vit_parity.py.
BlockList build(const std::string& model, std::int64_t pixels) {
  if (model == "resnet50") return build_resnet(*find_resnet_config("resnet50"));
  if (model == "cct") {
    return build_cct({.layers = 3, .hidden = 48, .heads = 3, .ffn = 64, .image_size = pixels, .classes = 7});
  }
  TRIREME_CHECK(model == "vit" || model == "vit_mean", "there is no model {}", model);
  return build_vit({.layers = 3,
                    .hidden = 48,
                    .heads = 3,
                    .ffn = 96,
                    .patch = 8,
                    .image_size = pixels,
                    .classes = 7,
                    .pool = model == "vit" ? TokenPool::kClassToken : TokenPool::kMean});
}

void trace(const Options& o, const std::shared_ptr<Communicator>& comm) {
  Engine engine(
      build(o.model, o.pixels), comm,
      {.threads = 2,
       .global_batch = o.global_batch(),
       .micro_batch = o.micro_batch,
       .optimizer = {
           .kind = OptimizerConfig::Kind::kSgd, .weight_decay = 1e-4f, .momentum = 0.9f, .nesterov = true}});
  load_state(engine, o.folder, StateParts::kModel);
  // The same batch in every step. There are few classes, because brightness depends on the label, and a
  // bright image would dominate the others.
  const BatchSource source = testing::image_source(o.pixels, 5, 0);
  const HostBatch batch = source(0, o.global_batch());
  TensorRecord file;
  file.add("inputs", "F32", {o.global_batch(), o.pixels, o.pixels, 3}, batch.inputs);
  file.add("targets", "I32", {o.global_batch()}, std::as_bytes(std::span(batch.targets)));
  file.add("logits", engine, engine.infer(source(0, o.micro_batch)));
  engine.observe_gradients([&](const std::string& name, const Tensor& gradient) {
    if (engine.steps_done() == 0) file.add("gradient." + name, engine, gradient);
  });
  nlohmann::json losses = nlohmann::json::array();
  for (std::int64_t step = 0; step < o.steps; ++step) {
    losses.push_back(engine.step(source, o.global_batch(), o.lr).loss);
    if (step > 0) continue;
    for (const StatisticStore::Entry& entry : engine.statistics().entries()) {
      file.add("statistic." + entry.name, engine,
               engine.statistics().values().slice(entry.offset, entry.shape));
    }
  }
  file.write(o.folder / "trace.safetensors");
  std::ofstream(o.folder / "trace.json") << nlohmann::json{{"losses", losses}}.dump() << "\n";
  std::filesystem::create_directories(o.folder / "out");
  save_state(engine, o.folder / "out");
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  if (argc != 8) {
    fmt::print(stderr, "usage: image_trace MODEL FOLDER PIXELS MICRO_BATCH ACCUMULATION STEPS LR\n");
    return 2;
  }
  try {
    const Options options{.model = argv[1],
                          .folder = argv[2],
                          .pixels = std::stoll(argv[3]),
                          .micro_batch = std::stoll(argv[4]),
                          .accumulation = std::stoll(argv[5]),
                          .steps = std::stoll(argv[6]),
                          .lr = std::stod(argv[7])};
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) { trace(options, comm); });
  } catch (const std::exception& e) {
    fmt::print(stderr, "image_trace: {}\n", e.what());
    return 1;
  }
  return 0;
}
