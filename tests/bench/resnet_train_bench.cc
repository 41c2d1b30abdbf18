// Trains a ResNet on synthetic images and prints one JSON object: milliseconds per step, images/s, predicted
// and measured peak bytes.
//
//   resnet_train_bench --model resnet50 --pixels 224 --micro-batch 16 --threads 2
//   resnet_train_bench --predict ...      bytes by category, predicted and measured in one step
//
// peers/resnet_pytorch.py takes the same sizes; resnet_vs_pytorch.py runs both side by side.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/resnet.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "runtime/base/error.h"
#include "tests/bench/sgemm_rate.h"
#include "tests/support/tiny_resnet.h"

namespace trireme::bench {
namespace {

struct Options {
  std::string model = "resnet50", precision = "fp32";
  std::int64_t pixels = 224, micro_batch = 16, steps = 3, warmup = 1;
  int threads = 2;
  std::string device = "cpu";
  bool cuda_graph = false;
  bool predict = false, sgemm = false;
};

void add_options(CLI::App& app, Options& o) {
  app.add_option("--model", o.model);
  app.add_option("--precision", o.precision, "fp32, tf32, fp16 or bf16");
  app.add_option("--pixels", o.pixels, "height and width of an image");
  app.add_option("--micro-batch", o.micro_batch);
  app.add_option("--steps", o.steps, "steps to time");
  app.add_option("--warmup", o.warmup, "steps before them");
  app.add_option("--threads", o.threads);
  app.add_option("--device", o.device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_flag("--cuda-graph", o.cuda_graph, "record a step and play it");
  app.add_flag("--predict", o.predict, "bytes by category, predicted and measured");
  app.add_flag("--sgemm", o.sgemm, "measure the machine's sgemm rate and nothing else");
}

nlohmann::json bytes_by_category(const MemoryStats& stats) {
  nlohmann::json bytes;
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    bytes[std::string(name(category))] = stats.peak[category];
  }
  return bytes;
}

nlohmann::json train(const Options& o, const std::shared_ptr<Communicator>& comm) {
  using Clock = std::chrono::steady_clock;
  const auto config = find_resnet_config(o.model);
  const auto precision = find_precision_mode(o.precision);
  TRIREME_CHECK(config && precision, "there is no model '{}' or no precision '{}'", o.model, o.precision);
  const auto blocks = std::make_shared<const BlockList>(build_resnet(*config));
  const EngineOptions options{
      .device = {o.device == "cuda" ? DeviceType::kCuda : DeviceType::kCpu, 0},
      .threads = o.threads,
      .global_batch = o.micro_batch,
      .micro_batch = o.micro_batch,
      .optimizer = {.kind = OptimizerConfig::Kind::kSgd, .weight_decay = 1e-4f, .momentum = 0.9f},
      .cuda_graph = o.cuda_graph,
      .precision = Precision(*precision),
      .loss_scale = {.kind = o.precision == "fp16" ? LossScaleConfig::Kind::kDynamic
                                                   : LossScaleConfig::Kind::kOff}};
  Engine engine(blocks, comm, options);
  // One batch per step, made in advance, because a copy takes the host longer than a fast card needs for a
  // step.
  std::vector<HostBatch> batches(static_cast<std::size_t>(o.warmup + o.steps),
                                 testing::image_source(o.pixels, config->classes, 0)(0, o.micro_batch));
  // As in training, a batch is uploaded during the previous step: a step's time is from the end of the
  // previous step to its own end.
  std::vector<double> step_ms;
  StepResult result;
  Clock::time_point before = Clock::now();
  const std::size_t may_wait = engine.is_asynchronous() ? 1 : 0;
  const auto collect = [&] {
    result = engine.collect();
    const Clock::time_point now = Clock::now();
    step_ms.push_back(std::chrono::duration<double, std::milli>(now - before).count());
    before = now;
  };
  for (HostBatch& batch : batches) {
    engine.enqueue_step([&](std::int64_t, std::int64_t) { return std::move(batch); }, o.micro_batch, 0.01);
    while (engine.num_pending() > may_wait) collect();
  }
  while (engine.num_pending() > 0) collect();
  step_ms.erase(step_ms.begin(), step_ms.begin() + o.warmup);
  std::ranges::sort(step_ms);
  const double median = step_ms.empty() ? 0.0 : step_ms[step_ms.size() / 2];
  nlohmann::json report{{"step_ms", median},
                        {"min_step_ms", step_ms.empty() ? 0.0 : step_ms.front()},
                        {"images_per_s", static_cast<double>(o.micro_batch) * 1e3 / median},
                        {"loss", result.loss},
                        {"peak_bytes", result.memory.peak_total}};
  const SampleSpec sample{.input = {o.pixels, o.pixels, 3}, .input_dtype = DType::kFloat32, .target = {}};
  const MemoryStats predicted = predict_step(blocks, options, sample, 1, 0).memory;
  report["predicted_peak_bytes"] = predicted.peak_total;
  if (o.predict) report["predicted"] = bytes_by_category(predicted);
  if (o.predict) report["measured"] = bytes_by_category(result.memory);
  return report;
}

int run(int argc, char** argv) {
  CLI::App app("Times training steps of a ResNet.");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  if (options.sgemm) {
    fmt::print("{}\n", nlohmann::json{{"sgemm_gflops", measure_sgemm_gflops(options.threads, 12)}}.dump());
    return 0;
  }
  try {
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
      fmt::print("{}\n", train(options, comm).dump());
    });
  } catch (const std::exception& e) {
    fmt::print(stderr, "resnet_train_bench: {}\n", e.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  return trireme::bench::run(argc, argv);
}
