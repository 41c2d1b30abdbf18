#include "launcher/memory_check.h"

#include <string>
#include <vector>

#include "launcher/build.h"
#include "launcher/machine.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

/// One change of a job, as --set would make it.
struct Remedy {
  std::string text;
  JobConfig config;
};

std::vector<Remedy> remedies(const JobConfig& config, int num_ranks) {
  std::vector<Remedy> all;
  const auto add = [&](std::string text, auto change) {
    JobConfig changed = config;
    change(changed);
    all.push_back({std::move(text), std::move(changed)});
  };
  const std::int64_t given = config.train.micro_batch;
  for (std::int64_t micro_batch = given - 1; micro_batch >= 1; --micro_batch) {
    if (given % micro_batch != 0) continue;  // a divisor keeps the global batch divisible
    add(fmt::format("train.micro_batch = {}", micro_batch),
        [&](JobConfig& job) { job.train.micro_batch = micro_batch; });
  }
  if (config.parallel.recompute_every != 1) {
    add("parallel.recompute_every = 1", [](JobConfig& job) { job.parallel.recompute_every = 1; });
  }
  for (std::int64_t zero = config.parallel.zero + 1; zero <= 3 && num_ranks > 1; ++zero) {
    add(fmt::format("parallel.zero = {}", zero), [&](JobConfig& job) { job.parallel.zero = zero; });
  }
  add("train.micro_batch = 1, parallel.recompute_every = 1 and parallel.zero = 3 together",
      [](JobConfig& job) {
        job.train.micro_batch = 1;
        job.parallel.recompute_every = 1;
        job.parallel.zero = 3;
      });
  return all;
}

/// "train.micro_batch = 2 would fit, with 1.20 GiB": the first remedy of each key that does.
std::string advise(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks, int num_ranks,
                   int rank, std::int64_t available_bytes) {
  std::string advice;
  std::string last_key;
  for (const Remedy& remedy : remedies(config, num_ranks)) {
    const std::string key = remedy.text.substr(0, remedy.text.find(' '));
    if (key == last_key) continue;
    const StepPrediction less =
        predict_step(blocks, engine_options(remedy.config), sample_spec(remedy.config), num_ranks, rank);
    if (less.memory.peak_total > available_bytes) continue;
    last_key = key;
    advice += fmt::format("{}{} would fit, with {}", advice.empty() ? "" : "; ", remedy.text,
                          format_bytes(less.memory.peak_total));
  }
  if (!advice.empty()) return advice;
  return "no smaller micro-batch, recompute or sharding would make it fit; choose a smaller model, "
         "model.seq_len or "
         "vocabulary, more ranks or a machine with more memory";
}

}  // namespace

std::int64_t rank_memory_bytes(const JobConfig& config, int num_local_ranks) {
  if (config.parallel.memory_limit > 0) return config.parallel.memory_limit;
  return total_memory_bytes() / std::max(1, num_local_ranks);
}

StepPrediction check_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                            int num_ranks, int rank, std::int64_t available_bytes) {
  StepPrediction prediction =
      predict_step(blocks, engine_options(config), sample_spec(config), num_ranks, rank);
  if (prediction.memory.peak_total > available_bytes) {
    throw Error(
        ErrorCode::kInvalidInput,
        fmt::format("the job does not fit: a rank needs {} ({}), and may use {}{}; {}",
                    format_bytes(prediction.memory.peak_total), to_string(prediction.memory.at_peak),
                    format_bytes(available_bytes),
                    config.parallel.memory_limit > 0 ? " (parallel.memory_limit)" : " of this machine",
                    advise(config, blocks, num_ranks, rank, available_bytes)));
  }
  return prediction;
}

}  // namespace trireme
