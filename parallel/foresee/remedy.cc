#include "parallel/foresee/remedy.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

std::vector<Change> changes_that_reduce(MemoryCategory category, const EngineOptions& options) {
  std::vector<Change> changes;
  const auto add = [&](bool helps, std::string_view field, LayoutValue value) {
    if (helps) changes.push_back({field, std::move(value)});
  };
  const auto shard = [&](ZeroStage zero) {
    add(options.layout.zero < zero && zero <= largest_zero(options), "zero", static_cast<std::int64_t>(zero));
  };
  std::int64_t fewer = options.micro_batch - 1;
  while (fewer > 1 && options.micro_batch % fewer != 0) --fewer;  // until it divides the global batch
  switch (category) {
    case MemoryCategory::kParameters:
      shard(ZeroStage::kParameters);
      break;
    case MemoryCategory::kGradients:
      shard(ZeroStage::kGradients);
      add(options.layout.zero >= ZeroStage::kGradients && options.layout.accumulate_unsharded,
          "accumulate_unsharded", false);
      break;
    case MemoryCategory::kOptimizer:
    case MemoryCategory::kHost:
      shard(ZeroStage::kOptimizer);
      break;
    case MemoryCategory::kActivations:
      add(fewer >= 1, "micro_batch", fewer);
      add(options.layout.recompute_every == 0, "recompute_every", std::int64_t{1});
      break;
    case MemoryCategory::kBatch:
      add(fewer >= 1, "micro_batch", fewer);
      break;
    case MemoryCategory::kData:
      add(true, "data_cache_bytes", std::int64_t{0});
      break;
    case MemoryCategory::kCommunication:  // otherwise in proportion to the others
      add(options.layout.zero == ZeroStage::kParameters && options.layout.keep_gathered, "keep_gathered",
          false);
      break;
    case MemoryCategory::kWorkspace:
      break;  // in proportion to the others
  }
  return changes;
}

}  // namespace

std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ", parts[i]);
  }
  return text;
}

std::vector<Change> changes_between(const PlannedJob& from, const PlannedJob& to) {
  std::vector<Change> changes;
  const auto compare = [&](std::string_view field, const LayoutValue& before, const LayoutValue& after) {
    if (after != before) changes.push_back({field, after});
  };
  const EngineOptions& before = from.options;
  const EngineOptions& after = to.options;
  compare("data_cache_bytes", before.data_cache_bytes, after.data_cache_bytes);
  for (const LayoutField& field : layout_fields()) {
    compare(field.name, field.get(before.layout), field.get(after.layout));
  }
  compare("micro_batch", before.micro_batch, after.micro_batch);
  compare("num_ranks", std::int64_t{from.num_ranks}, std::int64_t{to.num_ranks});
  return changes;
}

std::vector<MemoryAdvice> advise(const MemoryCounts& needed, const EngineOptions& options) {
  std::vector<MemoryAdvice> advice;
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    if (needed[category] * 10 < needed.total()) continue;
    auto changes = changes_that_reduce(category, options);
    if (!changes.empty()) advice.push_back({category, needed[category], std::move(changes)});
  }
  std::ranges::stable_sort(advice, std::ranges::greater{}, &MemoryAdvice::bytes);
  return advice;
}

}  // namespace trireme
