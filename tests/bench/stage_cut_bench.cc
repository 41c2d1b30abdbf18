// The gain of cutting pipeline stages by measured times. Compares stages with equal numbers of blocks, of
// parameters, and of measured milliseconds. Prints the time of the slowest stage and of a simulated step.
// Blocks are profiled twice: the first profile determines the cut, the second one evaluates it.
//
//   stage_cut_bench --vocab 16384 --stages 4        prints one JSON object per cut
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/gpt.h"
#include "parallel/foresee/plan_simulate.h"
#include "parallel/layout/stage_cut.h"
#include "parallel/plan/planner.h"
#include "runtime/base/error.h"
#include "runtime/data/synthetic_tokens.h"

namespace trireme::bench {
namespace {

struct Options {
  GptConfig model{.layers = 10, .hidden = 256, .heads = 4, .vocab = 16384, .seq_len = 128};
  std::int64_t micro_batch = 4;
  int stages = 4, micro_batches = 8, threads = 1, repeats = 5;
};

std::vector<BlockTime> profile(const Options& o, const BlockList& blocks) {
  const SyntheticTokens data({.num_samples = o.micro_batch,
                              .sequence_length = o.model.seq_len,
                              .vocab_size = o.model.vocab,
                              .seed = 1});
  return measure_block_times(blocks, data.read_train(0, o.micro_batch),
                             {.device = {DeviceType::kCpu, 0}, .threads = o.threads, .repeats = o.repeats});
}

nlohmann::ordered_json describe(const std::string& name, const StageMap& cut, const Options& o,
                                const std::vector<BlockTime>& times) {
  const std::vector<double> stages = chunk_costs(cut, time_costs(times));
  const StepPlan plan = plan_training_step(cut.num_units(), {{Axis::kPipeline, o.stages}},
                                           {.global_batch = o.micro_batches}, {.stages = cut});
  const Timeline step = simulate_plan(plan, {.blocks = times});
  std::vector<int> lengths;
  for (int s = 0; s < cut.num_chunks(); ++s) lengths.push_back(cut.end_unit(s) - cut.first_unit(s));
  return {{"cut", name},
          {"blocks", lengths},
          {"stage_ms", stages},
          {"slowest_stage_ms", std::ranges::max(stages)},
          {"simulated_step_ms", step.duration_ms()},
          {"bubble_share", step.bubble_share()}};
}

void run(const Options& o) {
  const BlockList blocks = build_gpt(o.model);
  const std::vector<BlockTime> first = profile(o, blocks), second = profile(o, blocks);
  const std::vector<std::pair<std::string, std::vector<double>>> cuts = {
      {"equal count", std::vector<double>(blocks.size(), 1.0)},
      {"parameters", parameter_costs(blocks)},
      {"measured", time_costs(first)}};
  for (const auto& [name, costs] : cuts) {
    fmt::print("{}\n", describe(name, cut_evenly(costs, o.stages), o, second).dump());
  }
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  trireme::bench::Options o;
  CLI::App app{"Slowest pipeline stage of a GPT with three partitions into stages"};
  app.add_option("--layers", o.model.layers);
  app.add_option("--hidden", o.model.hidden);
  app.add_option("--heads", o.model.heads);
  app.add_option("--vocab", o.model.vocab);
  app.add_option("--context", o.model.seq_len);
  app.add_option("--micro-batch", o.micro_batch);
  app.add_option("--stages", o.stages);
  app.add_option("--micro-batches", o.micro_batches);
  app.add_option("--threads", o.threads);
  app.add_option("--repeats", o.repeats);
  CLI11_PARSE(app, argc, argv);
  try {
    trireme::bench::run(o);
  } catch (const trireme::Error& error) {
    fmt::print(stderr, "stage_cut_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
