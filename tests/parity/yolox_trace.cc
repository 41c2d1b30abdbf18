// Runs the first blocks of a YOLOX network, and records the data that yolox_parity.py compares.
//
//   yolox_trace FOLDER LAYERS WIDTH SEPARABLE CLASSES BLOCKS
//   yolox_trace FOLDER LAYERS WIDTH SEPARABLE CLASSES loss
//
// Reads the weights of the first BLOCKS blocks in FOLDER/model.safetensors, and images [B, H, W, 3] and
// targets in FOLDER/batch.safetensors. Writes FOLDER/trace.safetensors: the first output of the last of the
// blocks, and if these are all blocks, the gradients of a step with a mean squared error over all predictions
// and the running statistics after it. FOLDER/trace.json has the loss.
//
// With "loss", the network has its own loss, targets are [B, M, 5], and the file has target_weights [B]. A
// step has micro-batches of two. FOLDER/cases.safetensors has the pictures of an assignment each:
// "0.predictions" [A, 5 + classes], "0.targets" [M, 5], "0.size" (height, width) and "0.l1_weight", and so
// on; the trace has their objects, parts and gradients.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "runtime/ops/detection_loss.h"
#include "runtime/tape.h"
#include "tests/parity/tensor_record.h"
#include "tests/support/tiny_yolox.h"

namespace trireme {
namespace {

struct Options {
  std::filesystem::path folder;
  YoloxConfig config;
  std::size_t num_blocks;
};

/// All samples of batch.safetensors; BatchSource reads them in order.
HostBatch read_batch(const std::filesystem::path& path, std::int64_t first, std::int64_t count) {
  const SafetensorsReader file(path);
  const std::vector<std::int64_t>&images = file.tensor("inputs").shape, &rows = file.tensor("targets").shape;
  HostBatch batch;
  batch.input_dtype = batch.target_dtype = DType::kFloat32;
  batch.input_shape = {count, images[1], images[2], images[3]};
  batch.target_shape = {count, rows[1], rows[2]};
  if (file.has("target_weights")) batch.target_weights = read_rows(file, "target_weights", first, count);
  const std::vector<float> inputs = read_rows(file, "inputs", first, count);
  batch.inputs.resize(inputs.size() * sizeof(float));
  std::memcpy(batch.inputs.data(), inputs.data(), batch.inputs.size());
  batch.number_targets = read_rows(file, "targets", first, count);
  return batch;
}

/// Adds the gradients of a step. Returns its loss.
float trace_step(Engine& engine, TensorRecord& file, const std::filesystem::path& samples) {
  engine.observe_gradients([&](const std::string& name, const Tensor& gradient) {
    file.add("gradient." + name, engine, gradient);
  });
  const auto source = [&](std::int64_t first, std::int64_t n) { return read_batch(samples, first, n); };
  return engine.step(source, engine.batch().global_batch, 0.0).loss;
}

std::vector<float> all_rows(const SafetensorsReader& file, const std::string& name) {
  return read_rows(file, name, 0, file.tensor(name).shape[0]);
}

/// The loss of one picture and its gradient.
void trace_case(const SafetensorsReader& cases, const std::string& name, std::int64_t classes,
                const Engine& engine, TensorRecord& file) {
  Context ctx = engine.context();
  const auto upload = [&](const std::string& part, std::int64_t width) {
    const std::vector<float> values = all_rows(cases, name + part);
    const Shape shape{1, std::ssize(values) / width, width};
    return ctx.from_host(values.data(), shape, DType::kFloat32, MemoryCategory::kBatch);
  };
  Tape tape;
  ctx.tape = &tape;
  const Tensor predictions = tape.watch(upload(".predictions", 5 + classes));
  const std::vector<float> size = all_rows(cases, name + ".size");
  const ops::DetectionLoss loss =
      ops::detection_loss(ctx, predictions, upload(".targets", 5), upload(".l1_weight", 1).reshape({1}),
                          {.grid = {.height = std::lround(size[0]), .width = std::lround(size[1])}});
  std::vector<std::int32_t> objects(static_cast<std::size_t>(loss.objects.num_elems()));
  ctx.backend->copy_to_host(ctx.exec, objects.data(), loss.objects);
  file.add(name + ".objects", {std::ssize(objects)}, std::vector<float>(objects.begin(), objects.end()));
  file.add(name + ".parts", engine, loss.parts);
  file.add(name + ".gradient", engine, tape.backward(ctx, {{loss.loss.id(), {}}}, {predictions.id()})[0]);
}

void trace_loss(const Options& o, const std::shared_ptr<Communicator>& comm) {
  const std::filesystem::path samples = o.folder / "batch.safetensors";
  const std::int64_t count = SafetensorsReader(samples).tensor("inputs").shape[0];
  Engine engine(build_yolox_detector(o.config), comm,
                {.threads = 2,
                 .global_batch = count,
                 .micro_batch = 2,
                 .optimizer = {.kind = OptimizerConfig::Kind::kSgd, .weight_decay = 0.0f}});
  load_state(engine, o.folder, StateParts::kModel);
  TensorRecord file;
  const SafetensorsReader cases(o.folder / "cases.safetensors");
  for (int i = 0; cases.has(fmt::format("{}.size", i)); ++i) {
    trace_case(cases, std::to_string(i), o.config.classes, engine, file);
  }
  nlohmann::json record;
  record["loss"] = trace_step(engine, file, samples);
  file.write(o.folder / "trace.safetensors");
  std::ofstream(o.folder / "trace.json") << record.dump() << "\n";
}

void trace(const Options& o, const std::shared_ptr<Communicator>& comm) {
  BlockList blocks = build_yolox(o.config);
  const bool whole = o.num_blocks == blocks.size();
  blocks.resize(o.num_blocks);
  blocks.push_back(std::make_unique<testing::PredictionError>());
  const std::filesystem::path samples = o.folder / "batch.safetensors";
  const std::int64_t count = SafetensorsReader(samples).tensor("inputs").shape[0];
  Engine engine(std::move(blocks), comm,
                {.threads = 2,
                 .global_batch = count,
                 .micro_batch = count,
                 .optimizer = {.kind = OptimizerConfig::Kind::kSgd, .weight_decay = 0.0f}});
  load_state(engine, o.folder, StateParts::kModel);
  TensorRecord file;
  file.add("output", engine, engine.infer(read_batch(samples, 0, count)));
  nlohmann::json record;
  if (whole) {
    record["loss"] = trace_step(engine, file, samples);
    for (const StatisticStore::Entry& entry : engine.statistics().entries()) {
      file.add("statistic." + entry.name, engine,
               engine.statistics().values().slice(entry.offset, entry.shape));
    }
  }
  file.write(o.folder / "trace.safetensors");
  std::ofstream(o.folder / "trace.json") << record.dump() << "\n";
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  if (argc != 7) {
    fmt::print(stderr, "usage: yolox_trace FOLDER LAYERS WIDTH SEPARABLE CLASSES BLOCKS|loss\n");
    return 2;
  }
  try {
    const bool has_loss = std::string(argv[6]) == "loss";
    Options options{.folder = argv[1], .config = {}, .num_blocks = has_loss ? 0 : std::stoul(argv[6])};
    options.config = {.layers = std::stoll(argv[2]),
                      .width = std::stoll(argv[3]),
                      .separable = std::stoi(argv[4]) != 0,
                      .classes = std::stoll(argv[5])};
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
      has_loss ? trace_loss(options, comm) : trace(options, comm);
    });
  } catch (const std::exception& e) {
    fmt::print(stderr, "yolox_trace: {}\n", e.what());
    return 1;
  }
  return 0;
}
