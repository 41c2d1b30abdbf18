#include "parallel/foresee/remedy.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace trireme {
namespace {

struct FieldFacts {
  std::string_view name;
  bool is_flag;
  std::int64_t (*value)(const PlannedJob&);
};

// Indexed by Field.
constexpr std::array<FieldFacts, 9> kFields = {{
    {"data_cache_bytes", false, [](const PlannedJob& j) { return j.options.data_cache_bytes; }},
    {"zero", false, [](const PlannedJob& j) { return static_cast<std::int64_t>(j.options.layout.zero); }},
    {"accumulate_unsharded", true,
     [](const PlannedJob& j) { return std::int64_t{j.options.layout.accumulate_unsharded}; }},
    {"keep_gathered", true, [](const PlannedJob& j) { return std::int64_t{j.options.layout.keep_gathered}; }},
    {"recompute_every", false,
     [](const PlannedJob& j) { return std::int64_t{j.options.layout.recompute_every}; }},
    {"sequence", true, [](const PlannedJob& j) { return std::int64_t{j.options.layout.sequence}; }},
    {"tensor", false, [](const PlannedJob& j) { return std::int64_t{j.options.layout.tensor}; }},
    {"micro_batch", false, [](const PlannedJob& j) { return j.options.micro_batch; }},
    {"num_ranks", false, [](const PlannedJob& j) { return std::int64_t{j.num_ranks}; }},
}};

const FieldFacts& facts(Field field) {
  return kFields[static_cast<std::size_t>(field)];
}

std::vector<Change> changes_that_reduce(MemoryCategory category, const EngineOptions& options) {
  std::vector<Change> changes;
  const auto add = [&](bool helps, Field field, std::int64_t value) {
    if (helps) changes.push_back({field, value});
  };
  const auto shard = [&](ZeroStage zero) {
    add(options.layout.zero < zero && zero <= largest_zero(options), Field::kZero,
        static_cast<std::int64_t>(zero));
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
          Field::kAccumulateUnsharded, 0);
      break;
    case MemoryCategory::kOptimizer:
    case MemoryCategory::kHost:
      shard(ZeroStage::kOptimizer);
      break;
    case MemoryCategory::kActivations:
      add(fewer >= 1, Field::kMicroBatch, fewer);
      add(options.layout.recompute_every == 0, Field::kRecomputeEvery, 1);
      break;
    case MemoryCategory::kBatch:
      add(fewer >= 1, Field::kMicroBatch, fewer);
      break;
    case MemoryCategory::kData:
      add(true, Field::kDataCacheBytes, 0);
      break;
    case MemoryCategory::kCommunication:  // otherwise in proportion to the others
      add(options.layout.zero == ZeroStage::kParameters && options.layout.keep_gathered, Field::kKeepGathered,
          0);
      break;
    case MemoryCategory::kWorkspace:
      break;  // in proportion to the others
  }
  return changes;
}

}  // namespace

std::string_view name(Field field) {
  return facts(field).name;
}

std::string value_text(const Change& change) {
  return facts(change.field).is_flag ? fmt::format("{}", change.value != 0) : fmt::format("{}", change.value);
}

std::string to_text(const Change& change) {
  if (change.field == Field::kNumRanks) return fmt::format("{} ranks", change.value);
  return fmt::format("{} = {}", name(change.field), value_text(change));
}

std::string to_text(const std::vector<Change>& changes) {
  std::vector<std::string> parts;
  for (const Change& change : changes) parts.push_back(to_text(change));
  return listed(parts);
}

std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ", parts[i]);
  }
  return text;
}

std::vector<Change> changes_between(const PlannedJob& from, const PlannedJob& to) {
  std::vector<Change> changes;
  for (std::size_t f = 0; f < kFields.size(); ++f) {
    const std::int64_t value = kFields[f].value(to);
    if (value != kFields[f].value(from)) changes.push_back({static_cast<Field>(f), value});
  }
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
