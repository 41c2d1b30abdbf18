#include "launcher/train/accumulation.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "launcher/train/agreement.h"
#include "launcher/train/build.h"
#include "parallel/foresee/accumulation_choice.h"
#include "parallel/watch/watchdog.h"

namespace trireme {
namespace {

bool is_settled(const JobConfig& config) {
  return config.parallel.accumulate_unsharded && config.parallel.keep_gathered;
}

}  // namespace

JobConfig with_accumulation(JobConfig config, const std::shared_ptr<const BlockList>& blocks, int num_ranks,
                            const MemoryLimit& limit) {
  const bool is_own = config.parallel.memory_limit > 0;
  const EngineOptions chosen =
      choose_accumulation(blocks, planned_job(config, blocks, num_ranks).options,
                          {.accumulate_unsharded = config.parallel.accumulate_unsharded,
                           .keep_gathered = config.parallel.keep_gathered},
                          sample_spec(config), num_ranks, is_own ? limit.bytes : limit.bytes / 8 * 7);
  config.parallel.accumulate_unsharded = chosen.accumulate_unsharded;
  config.parallel.keep_gathered = chosen.keep_gathered;
  return config;
}

JobConfig with_accumulation(JobConfig config, const std::shared_ptr<const BlockList>& blocks,
                            const std::shared_ptr<Communicator>& comm, const MemoryLimit& limit) {
  if (is_settled(config)) return config;
  const Watchdog::Scope watch(comm->status().get(), "the choice of what is kept over a step's micro-batches");
  MemoryLimit smallest = limit;
  for (const std::string& bytes : comm->all_gather_strings(std::to_string(limit.bytes))) {
    smallest.bytes = std::min(smallest.bytes, std::int64_t{std::stoll(bytes)});
  }
  std::string chosen;
  run_stage(*comm, [&] {
    if (comm->rank() > 0) return;
    batch_layout(config, comm->size());  // refuses what cannot be laid out
    const JobConfig mine = with_accumulation(config, blocks, comm->size(), smallest);
    for (const auto& value : {mine.parallel.accumulate_unsharded, mine.parallel.keep_gathered}) {
      chosen += *value ? '1' : '0';
    }
  });
  chosen = text_of_rank(*comm, 0, chosen);
  config.parallel.accumulate_unsharded = chosen[0] == '1';
  config.parallel.keep_gathered = chosen[1] == '1';
  return config;
}

std::string num_accumulated(const BatchLayout& batch) {
  return batch.is_even() ? fmt::format("{}", batch.per_rank())
                         : fmt::format("{} or {}", batch.per_rank() - 1, batch.per_rank());
}

std::string describe_accumulation(const EngineOptions& options, int num_ranks) {
  if (!has_gradients_to_keep(options, num_ranks)) return "";
  std::string text = fmt::format("gradients are reduced {}",
                                 options.accumulate_unsharded ? "once a step" : "every micro-batch");
  if (has_parameters_to_keep(options, num_ranks)) {
    text += fmt::format(", parameters gathered {}", options.keep_gathered ? "once a step" : "for every use");
  }
  return text;
}

}  // namespace trireme
