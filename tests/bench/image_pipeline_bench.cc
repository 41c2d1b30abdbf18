// Measures how fast images become batches, and how long training waits for them.
//
//   build/release/bin/image_pipeline_bench [--width 500] [--height 400] [--pictures 64] [--batch 16]
//   [--workers 2]
//
// Writes JPEG files, reads them as training samples (random resized crop to 224 x 224), and prints JSON:
// pictures per second with one thread and with all workers, and the share of time that training waits for
// data, with and without prefetch. The step has a fixed length and uses no core, like a GPU's. Its length
// makes training without prefetch wait 35 % of the time, the usual figure for comparison.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/data/image_dataset.h"
#include "runtime/data/image_decode.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/image_random.h"
#include "runtime/data/prefetch.h"
#include "tests/support/picture_files.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int width = 500, height = 400, pictures = 64, workers = 2;
  std::int64_t batch = 16, batches = 16;
};

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Waves and noise: about the bits per pixel of a photograph.
std::vector<std::uint8_t> draw_picture(const Options& options, std::uint32_t index) {
  ImageRandom random(ImageRandom::Stream::kSynthetic, 1, 0, index);
  const double step_x = random.uniform(0.01, 0.2), step_y = random.uniform(0.01, 0.2);
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < options.height; ++y) {
    for (int x = 0; x < options.width; ++x) {
      const double wave = 110 + 60 * std::sin(step_x * x) + 50 * std::sin(step_y * y);
      for (int c = 0; c < 3; ++c) pixels.push_back(static_cast<std::uint8_t>(wave + random.uniform(0, 30)));
    }
  }
  return pixels;
}

std::int64_t write_pictures(const Options& options, const testing::TemporaryFolder& folder) {
  std::int64_t bytes = 0;
  for (int i = 0; i < options.pictures; ++i) {
    const std::string jpeg =
        testing::encode_jpeg({.width = options.width, .height = options.height, .quality = 85},
                             draw_picture(options, static_cast<std::uint32_t>(i)));
    testing::write_file(folder / fmt::format("class{}", i % 4) / fmt::format("{:04}.jpg", i), jpeg);
    bytes += static_cast<std::int64_t>(jpeg.size());
  }
  return bytes / options.pictures;
}

struct Run {
  double wall_ms = 0, wait_ms = 0;
  double wait_share() const { return wait_ms / wall_ms; }
};

/// Takes all batches, with a step of `step_ms` after each.
Run take_batches(const std::shared_ptr<const Dataset>& data, const Options& options, int workers,
                 double step_ms) {
  std::vector<BatchRequest> requests;
  for (std::int64_t i = 0; i < options.batches; ++i)
    requests.push_back({.first = i * options.batch, .count = options.batch});
  const auto start = Clock::now();
  Prefetcher prefetcher(data, requests, {.depth = 2, .workers = workers});
  for (std::int64_t i = 0; i < options.batches; ++i) {
    prefetcher.next();
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(step_ms));
  }
  return {.wall_ms = ms_since(start), .wait_ms = prefetcher.take_wait_ms()};
}

nlohmann::ordered_json measure(const Options& options) {
  const testing::TemporaryFolder folder;
  const std::int64_t file_bytes = write_pictures(options, folder);
  const auto source = std::make_shared<ImageFolder>(
      ImageFolder::Options{.root = folder.path(), .max_pixels = kDefaultMaxPixels});
  const auto data = std::make_shared<ImageDataset>(ImageDataset::Options{
      .source = source, .view = {.size = 224, .crop = ViewOptions::Crop::kRandomResized, .flip = true}});
  const auto pictures = static_cast<double>(options.batches * options.batch);
  take_batches(data, options, 0, 0);  // loads the files into the page cache
  const Run alone = take_batches(data, options, 0, 0),
            together = take_batches(data, options, options.workers, 0);
  const double read_ms = alone.wall_ms / static_cast<double>(options.batches);
  const double step_ms = read_ms * (1 / 0.35 - 1);
  const Run off = take_batches(data, options, 0, step_ms), one = take_batches(data, options, 1, step_ms),
            on = take_batches(data, options, options.workers, step_ms);
  return {{"picture", fmt::format("{} x {}, {} bytes", options.width, options.height, file_bytes)},
          {"pictures_per_s_one_thread", pictures / alone.wall_ms * 1e3},
          {"pictures_per_s_all_workers", pictures / together.wall_ms * 1e3},
          {"workers", options.workers},
          {"step_ms", step_ms},
          {"wait_share_without_prefetch", off.wait_share()},
          {"wait_share_one_worker", one.wait_share()},
          {"wait_share_all_workers", on.wait_share()}};
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  trireme::Options options;
  CLI::App app("Measures the image pipeline");
  app.add_option("--width", options.width)->check(CLI::Range(1, 8000));
  app.add_option("--height", options.height)->check(CLI::Range(1, 8000));
  app.add_option("--pictures", options.pictures)->check(CLI::Range(1, 100000));
  app.add_option("--batch", options.batch)->check(CLI::Range(1, 4096));
  app.add_option("--batches", options.batches)->check(CLI::Range(1, 100000));
  app.add_option("--workers", options.workers)->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);
  fmt::print("{}\n", trireme::measure(options).dump(2));
  return 0;
}
