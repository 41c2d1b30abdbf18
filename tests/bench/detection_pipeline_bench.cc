// Measures how fast pictures become samples of a detector; detection_pipeline_vs_torchvision.py compares.
//
//   detection_pipeline_bench PICTURES ANNOTATIONS.json [--side 416] [--mosaic 0.5] [--mixup 0.2] [--workers
//   2]
//
// Reads batches of training samples as `trireme train` does, and prints JSON: samples per second.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/data/detection/detection_dataset.h"
#include "runtime/data/image_decode.h"
#include "runtime/data/prefetch.h"

namespace trireme {
namespace {

struct Options {
  std::string pictures, annotations;
  int side = 416, workers = 2;
  double mosaic = 0.5, mixup = 0.2;
  std::int64_t batch = 8, batches = 24;
};

double samples_per_s(const Options& options) {
  DetectionDataset::Options data_options;
  data_options.set = std::make_shared<DetectionSet>(DetectionSet::Options{
      .pictures = options.pictures, .annotations = options.annotations, .max_pixels = kDefaultMaxPixels});
  data_options.sides = {options.side};
  data_options.layout = {.mosaic_probability = options.mosaic,
                         .mixup_probability = options.mixup,
                         .scale = {0.6, 1.4},
                         .shift = 0.1,
                         .flip_probability = 0.5};
  data_options.jitter = {.hue = 0.015, .saturation = 0.3, .value = 0.3};
  const auto data = std::make_shared<DetectionDataset>(data_options);
  std::vector<BatchRequest> requests;
  for (std::int64_t i = 0; i < options.batches; ++i)
    requests.push_back({.first = i * options.batch, .count = options.batch});
  const auto start = std::chrono::steady_clock::now();
  Prefetcher prefetcher(data, requests, {.depth = 2, .workers = options.workers});
  while (prefetcher.next()) {
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return static_cast<double>(options.batch * options.batches) / wall.count();
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  trireme::Options options;
  CLI::App app("Measures the pipeline of detectors");
  app.add_option("PICTURES", options.pictures)->required();
  app.add_option("ANNOTATIONS", options.annotations)->required();
  app.add_option("--side", options.side)->check(CLI::Range(32, 4096));
  app.add_option("--mosaic", options.mosaic)->check(CLI::Range(0.0, 1.0));
  app.add_option("--mixup", options.mixup)->check(CLI::Range(0.0, 1.0));
  app.add_option("--workers", options.workers)->check(CLI::Range(0, 256));
  app.add_option("--batch", options.batch)->check(CLI::Range(1, 4096));
  app.add_option("--batches", options.batches)->check(CLI::Range(1, 100000));
  CLI11_PARSE(app, argc, argv);
  try {
    const nlohmann::json found = {{"samples_per_s", trireme::samples_per_s(options)}};
    fmt::print("{}\n", found.dump());
  } catch (const std::exception& error) {
    fmt::print(stderr, "detection_pipeline_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
