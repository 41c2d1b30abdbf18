#include "launcher/config/combinations.h"

#include <fmt/core.h>

#include <vector>

#include "runtime/base/error.h"

namespace trireme {

std::span<const Combination> pipeline_combinations() {
  static const std::vector<Combination> all = {
      {"`schedule` = \"gpipe\", \"1f1b\", \"interleaved\", \"zb-h1\"", nullptr,
       "with all that is said to work below"},
      {"data parallelism, accumulation", nullptr, "a data rank's micro-batches are those of the schedule"},
      {"`zero` = 1, 2, 3", nullptr, "each stage shards over its data ranks"},
      {"`accumulate_unsharded`, `keep_gathered`, `prefetch_depth`", nullptr, "in each stage"},
      {"`group_min_bytes`, `offload`", nullptr, "no group spans stages"},
      {"`recompute_every`", nullptr,
       "segments begin with a stage; its last one runs again unless its backward is next"},
      {"`precision`, loss scaling, skipped steps", nullptr, "all ranks agree over both axes"},
      {"`reduction` = \"fast\"", nullptr, "over the data axis of each stage; not the same bits"},
      {"`model.tied`", nullptr, "uses on other stages are sent to the owner and added in block order"},
      {"`model.dropout`", nullptr, "random numbers do not depend on the stage"},
      {"evaluation, checkpoints", nullptr,
       "a checkpoint resumes on any other layout, with or without stages"},
      {"`trireme sample`", nullptr, "on one rank, from any checkpoint"},
      {"`model.name` = \"resnet...\"", nullptr, "a stage has the running statistics of its own blocks"},
      {"`device` = \"cuda\"", nullptr,
       "a stream and an NCCL communicator for each channel between stages; not yet run on a GPU"},
      {"`cuda_graph` = true", [](const JobConfig& job) { return job.parallel.cuda_graph; },
       "messages between stages are not recorded: set it to false"},
  };
  return all;
}

void check_combinations(const JobConfig& config) {
  if (config.parallel.pipeline == 1) return;
  for (const Combination& combination : pipeline_combinations()) {
    if (!combination.refused || !combination.refused(config)) continue;
    throw Error(ErrorCode::kUnsupported,
                "parallel.pipeline = {} cannot be combined with {}: {}; or set parallel.pipeline = 1",
                config.parallel.pipeline, combination.with, combination.remark);
  }
}

std::string combinations_reference() {
  std::string text = "| `pipeline` with | | |\n| --- | --- | --- |\n";
  for (const Combination& combination : pipeline_combinations()) {
    text += fmt::format("| {} | {} | {} |\n", combination.with, combination.refused ? "refused" : "works",
                        combination.remark);
  }
  return text;
}

}  // namespace trireme
