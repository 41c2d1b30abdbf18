#include "parallel/layout/batch_layout.h"

#include <algorithm>
#include <string>
#include <string_view>
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

/// "1 data rank", "2 micro-batches".
std::string counted(std::int64_t number, std::string_view noun) {
  const std::string_view ending = number == 1 ? "" : noun.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", number, noun, ending);
}

/// At most `count` divisors of `number` up to `most`, nearest to `wanted`, ascending.
std::vector<std::int64_t> divisors_near(std::int64_t number, std::int64_t most, std::int64_t wanted,
                                        std::size_t count) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    divisors.push_back(d);
    if (d * d != number) divisors.push_back(number / d);
  }
  std::erase_if(divisors, [most](std::int64_t d) { return d > most; });
  const auto distance = [wanted](std::int64_t d) { return d > wanted ? d - wanted : wanted - d; };
  std::ranges::sort(divisors);
  std::ranges::stable_sort(divisors, {}, distance);
  divisors.resize(std::min(divisors.size(), count));
  std::ranges::sort(divisors);
  return divisors;
}

/// The rule of check() that a layout breaks: "... is not a multiple of ...".
std::string broken_rule(const BatchLayout& layout) {
  const auto [global_batch, micro_batch, data_ranks, assignment] = layout;
  if (assignment == Assignment::kStrided) {
    return fmt::format(
        "EngineOptions::global_batch = {} is not a multiple of EngineOptions::micro_batch x data ranks = {} "
        "x {} "
        "= {}, and every rank needs equally many micro-batches where gradients are reduced after each one",
        global_batch, micro_batch, data_ranks, micro_batch * data_ranks);
  }
  if (global_batch % micro_batch != 0) {
    return fmt::format(
        "EngineOptions::global_batch = {} is not a multiple of EngineOptions::micro_batch = {}", global_batch,
        micro_batch);
  }
  return fmt::format(
      "EngineOptions::global_batch = {} has {} of EngineOptions::micro_batch = {}, fewer than the {}",
      global_batch, counted(global_batch / micro_batch, "micro-batch"), micro_batch,
      counted(data_ranks, "data rank"));
}

/// The nearest values that pass check(): "global_batch = 24, micro_batch = 4 or 2 data ranks would do".
std::string advice_for(const BatchLayout& layout) {
  const auto [global_batch, micro_batch, data_ranks, assignment] = layout;
  const bool is_strided = assignment == Assignment::kStrided;
  const std::int64_t round = micro_batch * data_ranks;
  const std::int64_t unit = is_strided ? round : micro_batch;
  const std::int64_t below = global_batch / unit * unit;
  std::vector<std::int64_t> batches{std::max(below + unit, round)};
  if (below >= round) batches.insert(batches.begin(), below);
  std::string advice = fmt::format("EngineOptions::global_batch = {}", join_choices(batches));
  // Strided ranks share the samples equally; a contiguous rank needs at least one micro-batch.
  const bool can_share = is_strided ? global_batch % data_ranks == 0 : global_batch >= data_ranks;
  if (can_share) {
    const std::int64_t largest = global_batch / data_ranks;
    const auto choices = divisors_near(is_strided ? largest : global_batch, largest, micro_batch, 4);
    advice += fmt::format(", or EngineOptions::micro_batch = {}", join_choices(choices));
  }
  if (!is_strided && global_batch % micro_batch == 0) {
    advice += fmt::format(", or {}", counted(global_batch / micro_batch, "data rank"));
  }
  advice += " would do";
  if (!can_share && is_strided) {
    advice += fmt::format("; no micro-batch divides {} samples among {} ranks", global_batch, data_ranks);
  }
  const bool runs_uneven = is_strided && global_batch % micro_batch == 0 && global_batch > round;
  if (runs_uneven) advice += "; Layout::accumulate_unsharded = true lets ranks have unequally many";
  return advice;
}

}  // namespace

void BatchLayout::check() const {
  TRIREME_CHECK(global_batch >= 1 && micro_batch >= 1 && data_ranks >= 1,
                "EngineOptions::global_batch = {}, EngineOptions::micro_batch = {} and {} data ranks must "
                "all be positive",
                global_batch, micro_batch, data_ranks);
  // A plan holds every micro-batch of every rank, so their number is bounded.
  constexpr std::int64_t kMaxMicroBatches = std::int64_t{1} << 20;
  TRIREME_CHECK(global_batch / micro_batch <= kMaxMicroBatches,
                "EngineOptions::global_batch = {} makes {} micro-batches of EngineOptions::micro_batch = {}; "
                "a step has at most {}",
                global_batch, global_batch / micro_batch, micro_batch, kMaxMicroBatches);
  const bool is_strided = assignment == Assignment::kStrided;
  const std::int64_t round = micro_batch * data_ranks;
  if (is_strided ? global_batch % round == 0 : global_batch % micro_batch == 0 && global_batch >= round) {
    return;
  }
  throw Error(ErrorCode::kInvalidInput, "{}: {}", broken_rule(*this), advice_for(*this));
}

}  // namespace trireme
