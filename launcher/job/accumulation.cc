#include "launcher/job/accumulation.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "launcher/host/agreement.h"
#include "launcher/job/build.h"
#include "parallel/foresee/accumulation_choice.h"
#include "parallel/watch/watchdog.h"

namespace trireme {
namespace {

/// The open fields of `config` that are chosen by available memory.
OpenFields open_by_memory(const JobConfig& config) {
  OpenFields open;
  for (const std::string& field : fields_by_memory()) {
    if (config.parallel.open.contains(field)) open.insert(field);
  }
  return open;
}

}  // namespace

JobConfig with_accumulation(JobConfig config, const std::shared_ptr<const BlockList>& blocks, int num_ranks,
                            const MemoryLimit& limit) {
  const bool is_own = config.parallel.memory_limit > 0;
  const OpenFields open = open_by_memory(config);
  const PlannedJob job = planned_job(config, blocks, num_ranks);
  const EngineOptions chosen = choose_accumulation(blocks, job.options, open, job.sample, num_ranks,
                                                   is_own ? limit.bytes : limit.bytes / 8 * 7);
  for (const std::string& field : open) config.parallel.settle(field, layout_field(field).get(chosen.layout));
  return config;
}

JobConfig with_accumulation(JobConfig config, const std::shared_ptr<const BlockList>& blocks,
                            const std::shared_ptr<Communicator>& comm, const MemoryLimit& limit) {
  const OpenFields open = open_by_memory(config);
  if (open.empty()) return config;
  const Watchdog::Scope watch(comm->status().get(), "the choice of what is kept over a step's micro-batches");
  MemoryLimit smallest = limit;
  smallest.bytes = std::ranges::min(comm->all_gather_value(limit.bytes));
  std::string chosen;
  run_stage(*comm, [&] {
    if (comm->rank() > 0) return;
    batch_layout(config, comm->size());  // throws if the batch cannot be laid out
    const JobConfig mine = with_accumulation(config, blocks, comm->size(), smallest);
    for (const std::string& field : open)
      chosen += std::get<bool>(layout_field(field).get(mine.parallel.layout)) ? '1' : '0';
  });
  chosen = text_of_rank(*comm, 0, chosen);
  std::size_t i = 0;
  for (const std::string& field : open) config.parallel.settle(field, chosen[i++] == '1');
  return config;
}

std::string num_accumulated(const BatchLayout& batch) {
  return batch.is_even() ? fmt::format("{}", batch.per_rank())
                         : fmt::format("{} or {}", batch.per_rank() - 1, batch.per_rank());
}

std::string describe_accumulation(const EngineOptions& options, int num_ranks) {
  if (!has_gradients_to_keep(options, num_ranks)) return "";
  std::string text = fmt::format("gradients are reduced {}",
                                 options.layout.accumulate_unsharded ? "once a step" : "every micro-batch");
  if (has_parameters_to_keep(options, num_ranks)) {
    text += fmt::format(", parameters gathered {}",
                        options.layout.keep_gathered ? "once a step" : "for every use");
  }
  return text;
}

}  // namespace trireme
