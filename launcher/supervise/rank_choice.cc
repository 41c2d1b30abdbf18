#include "launcher/supervise/rank_choice.h"

#include <charconv>

#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/job/build.h"
#include "launcher/job/chosen_cut.h"
#include "launcher/report/chosen_layout.h"
#include "launcher/report/plan_report.h"
#include "parallel/comm/local.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr int kMostRanks = 1 << 20;

std::optional<int> to_num_ranks(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 0 && number <= kMostRanks ? std::optional(number) : std::nullopt;
}

DeviceType device_of(const JobConfig& config, const LaunchEnvironment& launch) {
  if (config.parallel.device) return *config.parallel.device;
  return choose_device(config.parallel.device, launch, LocalWorld(1).communicator(0)).device.type;
}

/// A layout that fits, for a job with parallel.layout = "auto". The job's ranks search again with measured
/// values.
JobConfig with_fitting_layout(const JobConfig& config, int num_ranks, DeviceType device) {
  const std::int64_t threads = config.parallel.threads;
  const LayoutRanks ranks{
      .num_ranks = num_ranks,
      .hosts = {},
      .device = {device, 0},
      .threads = threads > 0 ? static_cast<int>(threads) : threads_per_rank(count_cores(), num_ranks),
      .limit_bytes = planned_limit(config, num_ranks, 0).bytes};
  return choose_layout(config, cluster_of_search(config, ranks, Rates::kAssumed), ranks).config;
}

/// Throws Error(kInvalidInput) with the reason if the job cannot run on `num_ranks`.
void check_plan(JobConfig config, int num_ranks, const LaunchEnvironment& launch) {
  const DeviceType device = device_of(config, launch);
  if (config.parallel.is_searched()) config = with_fitting_layout(config, num_ranks, device);
  batch_layout(config, num_ranks);
  config = counted_on(std::move(config), device);
  const auto cut = config.parallel.pipeline_cut.kind;
  // A job that cuts by measurement cuts later; the cut by FLOPs replaces it here.
  if (config.parallel.layout.pipeline > 1 &&
      (cut == PipelineCut::Kind::kFlops || cut == PipelineCut::Kind::kMeasured)) {
    const MemoryLimit limit = planned_limit(config, num_ranks, 0);
    config.parallel.pipeline_cut = flops_cut(config, {.num_ranks = num_ranks, .limit_bytes = limit.bytes});
  }
  const PlanReport report = make_plan_report(config, num_ranks);
  TRIREME_CHECK(report.fit.fits(), "{}", to_text(report.fit));
}

}  // namespace

RankRange parse_ranks(const std::string& text) {
  const auto colon = text.find(':');
  const auto min = to_num_ranks(std::string_view(text).substr(0, colon));
  const auto max = colon == std::string::npos ? min : to_num_ranks(std::string_view(text).substr(colon + 1));
  TRIREME_CHECK(min && max && *min >= 1, "--ranks {}: it takes a number of ranks, or MIN:MAX, from 1 on",
                text);
  TRIREME_CHECK(*min <= *max, "--ranks {}: MIN {} is above MAX {}", text, *min, *max);
  return {.min = *min, .max = *max};
}

int choose_ranks(const JobConfig& config, const RankRange& range, const LaunchEnvironment& launch) {
  std::string reason;
  for (int num_ranks = range.max; num_ranks >= range.min; --num_ranks) {
    try {
      check_plan(config, num_ranks, launch);
      return num_ranks;
    } catch (const Error& error) {
      if (reason.empty()) reason = fmt::format("{} rank(s): {}", num_ranks, error.what());
    }
  }
  throw Error(ErrorCode::kInvalidInput, "no number of ranks from {} to {} can run the job; {}", range.min,
              range.max, reason);
}

}  // namespace trireme
