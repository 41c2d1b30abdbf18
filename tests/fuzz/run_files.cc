// Files that a run or `trireme plan` writes and reads back: times of blocks, metrics of earlier steps.
#include "launcher/job/block_profile.h"
#include "launcher/observe/metrics.h"
#include "tests/fuzz/json_changes.h"
#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

int fuzz_block_times(const std::uint8_t* data, std::size_t size) {
  const auto path = input_file("block_times.json", as_text(data, size));
  BlockProfile profile;
  if (taken([&] { profile = read_profile(path); })) to_json(profile);
  return 0;
}

std::vector<std::string> profiles() {
  return {to_json({.model = "gpt, 2 layers",
                   .micro_batch = 2,
                   .precision = "fp32",
                   .device = "cpu",
                   .threads = 1,
                   .blocks = {{"embedding", 0.5, 0.25}, {"blocks.0", 1e-3, 20}}})};
}

int fuzz_metrics(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = as_text(data, size);
  const auto path = input_file("metrics.jsonl", text);
  MetricsWriter({.path = path, .resume_step = 3, .evaluates_again = size % 2 == 0});
  const std::string kept = testing::read_file(path);
  require(text.starts_with(kept), "what is kept is not what was there");
  require(kept.empty() || kept.back() == '\n', "half a line was kept");
  return 0;
}

std::vector<std::string> metrics_files() {
  const auto path = scratch_folder() / "seed.jsonl";
  {
    MetricsWriter writer({.path = path});
    for (std::int64_t step = 1; step <= 5; ++step) {
      writer.write_step({.step = step, .loss = 1.5});
      if (step == 3) writer.write_eval(step, {.loss = 2.5, .top1 = 0.5});
    }
  }
  return {testing::read_file(path)};
}

void change_profile(std::string& text, Random& random) {
  change_json(text, random);
}

void change_metrics(std::string& text, Random& random) {
  change_json_line(text, random);
}

}  // namespace

const Reader kBlockTimes{"block_times", fuzz_block_times, profiles, change_profile};
const Reader kMetrics{"metrics", fuzz_metrics, metrics_files, change_metrics};

}  // namespace trireme::fuzz
