#include "parallel/layout/batch_layout.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

/// "1, 2 or 5".
std::string join_choices(const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == values.size() ? " or " : ", ", values[i]);
  }
  return text;
}

/// At most `count` divisors of `number`, those nearest to `wanted`, ascending.
std::vector<std::int64_t> divisors_near(std::int64_t number, std::int64_t wanted, std::size_t count) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    divisors.push_back(d);
    if (d * d != number) divisors.push_back(number / d);
  }
  const auto distance = [wanted](std::int64_t d) { return d > wanted ? d - wanted : wanted - d; };
  std::ranges::sort(divisors);
  std::ranges::stable_sort(divisors, {}, distance);
  divisors.resize(std::min(divisors.size(), count));
  std::ranges::sort(divisors);
  return divisors;
}

}  // namespace

void BatchLayout::check() const {
  TRIREME_CHECK(global_batch >= 1 && micro_batch >= 1 && data_ranks >= 1,
                "EngineOptions::global_batch = {}, EngineOptions::micro_batch = {} and {} data ranks must "
                "all be positive",
                global_batch, micro_batch, data_ranks);
  // A plan holds every micro-batch of every rank; no job accumulates a million of them.
  constexpr std::int64_t kMaxMicroBatches = std::int64_t{1} << 20;
  TRIREME_CHECK(global_batch / micro_batch <= kMaxMicroBatches,
                "EngineOptions::global_batch = {} makes {} micro-batches of EngineOptions::micro_batch = {}; "
                "a step has at most {}",
                global_batch, global_batch / micro_batch, micro_batch, kMaxMicroBatches);
  const std::int64_t round = micro_batch * data_ranks;
  if (global_batch % round == 0) return;
  const bool is_uneven = global_batch % micro_batch == 0 && global_batch > round;
  if (is_uneven && assignment == Assignment::kContiguous) return;
  const std::int64_t above = (global_batch / round + 1) * round, below = above - round;
  std::string advice = fmt::format("EngineOptions::global_batch = {}{} would do",
                                   below > 0 ? fmt::format("{} or ", below) : "", above);
  if (global_batch % data_ranks == 0) {
    const auto choices = divisors_near(global_batch / data_ranks, micro_batch, 4);
    advice += fmt::format(", or EngineOptions::micro_batch = {}", join_choices(choices));
  } else {
    advice += fmt::format("; no micro-batch divides {} samples among {} ranks", global_batch, data_ranks);
  }
  if (is_uneven) advice += "; EngineOptions::accumulate_unsharded = true lets ranks have unequally many";
  throw Error(ErrorCode::kInvalidInput,
              "EngineOptions::global_batch = {} is not a multiple of EngineOptions::micro_batch x data ranks "
              "= {} x {} = {}: {}",
              global_batch, micro_batch, data_ranks, round, advice);
}

}  // namespace trireme
