#include "launcher/report/memory_advice.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace trireme {
namespace {

void add_zero(std::vector<std::string>& keys, const JobConfig& config, int num_ranks, int stage) {
  if (config.parallel.zero >= stage) return;
  keys.push_back(fmt::format("parallel.zero = {}{}", stage, num_ranks > 1 ? "" : " on more ranks"));
}

void add_micro_batch(std::vector<std::string>& keys, const JobConfig& config) {
  std::int64_t less = config.train.micro_batch - 1;
  while (less > 1 && config.train.micro_batch % less != 0) --less;  // so that it divides the global batch
  if (less >= 1) keys.push_back(fmt::format("train.micro_batch = {}", less));
}

/// What is kept over the micro-batches of a step; no effect with other ZeRO stages.
void add_accumulation(std::vector<std::string>& keys, const JobConfig& config, MemoryCategory category) {
  const ParallelSection& parallel = config.parallel;
  if (category == MemoryCategory::kGradients && parallel.zero >= 2 &&
      parallel.accumulate_unsharded.value_or(false)) {
    keys.push_back("parallel.accumulate_unsharded = false");
  }
  if (category == MemoryCategory::kCommunication && parallel.zero == 3 &&
      parallel.keep_gathered.value_or(false)) {
    keys.push_back("parallel.keep_gathered = false");
  }
}

std::vector<std::string> keys_for(MemoryCategory category, const JobConfig& config, int num_ranks) {
  std::vector<std::string> keys;
  switch (category) {
    case MemoryCategory::kParameters:
      add_zero(keys, config, num_ranks, 3);
      break;
    case MemoryCategory::kGradients:
      add_zero(keys, config, num_ranks, 2);
      add_accumulation(keys, config, category);
      break;
    case MemoryCategory::kOptimizer:
      add_zero(keys, config, num_ranks, 1);
      break;
    case MemoryCategory::kActivations:
      add_micro_batch(keys, config);
      if (config.parallel.recompute_every == 0) keys.push_back("parallel.recompute_every = 1");
      break;
    case MemoryCategory::kBatch:
      add_micro_batch(keys, config);
      break;
    case MemoryCategory::kHost:
      add_zero(keys, config, num_ranks, 1);
      break;
    case MemoryCategory::kData:
      keys.push_back("a smaller data.cache");
      break;
    case MemoryCategory::kCommunication:
      add_accumulation(keys, config, category);  // else in proportion to the others
      break;
    case MemoryCategory::kWorkspace:
      break;  // in proportion to the others
  }
  return keys;
}

}  // namespace

std::string describe_remedies(const MemoryCounts& needed, const JobConfig& config, int num_ranks) {
  std::vector<MemoryCategory> categories;
  for (int c = 0; c < kNumMemoryCategories; ++c) categories.push_back(static_cast<MemoryCategory>(c));
  std::ranges::stable_sort(categories, std::ranges::greater{}, [&](MemoryCategory c) { return needed[c]; });
  std::string text;
  for (const MemoryCategory category : categories) {
    if (needed[category] * 10 < needed.total()) continue;
    const auto keys = keys_for(category, config, num_ranks);
    if (keys.empty()) continue;
    text += fmt::format("{}{} would reduce {} ({})", text.empty() ? "" : "; ", fmt::join(keys, " or "),
                        name(category), format_bytes(needed[category]));
  }
  return text.empty() ? "choose a smaller model, more ranks or a device with more memory" : text;
}

}  // namespace trireme
