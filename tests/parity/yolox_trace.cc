// Runs the first blocks of a YOLOX network, and records the data that yolox_parity.py compares.
//
//   yolox_trace FOLDER LAYERS WIDTH SEPARABLE CLASSES BLOCKS
//
// Reads the weights of the first BLOCKS blocks in FOLDER/model.safetensors, and images [B, H, W, 3] and
// targets in FOLDER/batch.safetensors. Writes FOLDER/trace.safetensors: the first output of the last of the
// blocks, and if these are all blocks, the gradients of a step with a mean squared error over all predictions
// and the running statistics after it. FOLDER/trace.json has the loss.
#include <fmt/format.h>

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
#include "runtime/checkpoint/float_data.h"
#include "runtime/checkpoint/safetensors_writer.h"
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
  const auto part = [&](const char* name) {
    const SafetensorsTensor& tensor = file.tensor(name);
    std::vector<float> all(tensor.num_elems);
    copy_as_floats(tensor, 0, all);
    const std::int64_t size = std::ssize(all) / tensor.shape[0];
    return std::vector<float>(all.begin() + first * size, all.begin() + (first + count) * size);
  };
  const std::vector<std::int64_t>&images = file.tensor("inputs").shape, &rows = file.tensor("targets").shape;
  HostBatch batch;
  batch.input_dtype = batch.target_dtype = DType::kFloat32;
  batch.input_shape = {count, images[1], images[2], images[3]};
  batch.target_shape = {count, rows[1], rows[2]};
  const std::vector<float> inputs = part("inputs");
  batch.inputs.resize(inputs.size() * sizeof(float));
  std::memcpy(batch.inputs.data(), inputs.data(), batch.inputs.size());
  batch.number_targets = part("targets");
  return batch;
}

/// Tensors of one file, kept in memory until it is written.
class Trace {
 public:
  void add(const std::string& name, const Engine& engine, const Tensor& tensor) {
    SafetensorsEntry entry{.name = name, .dtype = "F32", .shape = {}};
    for (int dim = 0; dim < tensor.shape().rank(); ++dim) entry.shape.push_back(tensor.shape().dim(dim));
    entries_.push_back(std::move(entry));
    const std::vector<float> values = engine.context().to_host(tensor);
    values_.insert(values_.end(), values.begin(), values.end());
  }
  void write(const std::filesystem::path& path) const {
    SafetensorsWriter writer(path, entries_);
    writer.append(values_);
    writer.commit();
  }

 private:
  std::vector<SafetensorsEntry> entries_;
  std::vector<float> values_;
};

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
  Trace file;
  file.add("output", engine, engine.infer(read_batch(samples, 0, count)));
  nlohmann::json record;
  if (whole) {
    engine.observe_gradients([&](const std::string& name, const Tensor& gradient) {
      file.add("gradient." + name, engine, gradient);
    });
    const auto source = [&](std::int64_t first, std::int64_t n) { return read_batch(samples, first, n); };
    record["loss"] = engine.step(source, count, 0.0).loss;
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
    fmt::print(stderr, "usage: yolox_trace FOLDER LAYERS WIDTH SEPARABLE CLASSES BLOCKS\n");
    return 2;
  }
  try {
    Options options{.folder = argv[1], .config = {}, .num_blocks = std::stoul(argv[6])};
    options.config = {.layers = std::stoll(argv[2]),
                      .width = std::stoll(argv[3]),
                      .separable = std::stoi(argv[4]) != 0,
                      .classes = std::stoll(argv[5])};
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) { trace(options, comm); });
  } catch (const std::exception& e) {
    fmt::print(stderr, "yolox_trace: {}\n", e.what());
    return 1;
  }
  return 0;
}
