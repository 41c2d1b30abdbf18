#include "launcher/report/cost_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "launcher/job/build.h"
#include "launcher/render/text_table.h"
#include "parallel/cost/checkpoint_interval.h"
#include "parallel/cost/rank_policy.h"
#include "parallel/run/checkpoint_state.h"
#include "parallel/run/saved_tensors.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_layout.h"

namespace trireme {
namespace {

constexpr std::pair<Offer, const char*> kOffers[] = {{Offer::kReserved, "reserved"},
                                                     {Offer::kPreemptible, "preemptible"}};

const char* name_of(Offer offer) {
  for (const auto& [known, name] : kOffers) {
    if (known == offer) return name;
  }
  return "";
}

/// Size of the files that the job's engine saves, which no layout changes; without the manifest.
double checkpoint_gb(const JobConfig& job) {
  JobConfig one = job;
  one.parallel = {.device = job.parallel.device};
  one.train.global_batch = one.train.micro_batch;
  const auto engine = engine_on_meta(planned_job(one, build_blocks(one.model), 1));
  std::uint64_t bytes = 0;
  for (const SavedFile& file : saved_files(*engine)) {
    bytes += SafetensorsLayout(file.name, entries_of(file.tensors), kFileMetadata).size_bytes();
  }
  return static_cast<double>(bytes) * 1e-9;
}

double rate_of(const ClusterCost& cost, Offer offer) {
  return cost.failures_per_hour + (offer == Offer::kPreemptible ? cost.interruptions_per_hour : 0);
}

/// Computes costs of policies for a job whose steps have been predicted.
class Pricing {
 public:
  Pricing(const JobConfig& job, const ClusterOfRanks& cluster_of, const CostRequest& request)
      : job_(job), cluster_of_(cluster_of), request_(request), cluster_(cluster_of(request.num_ranks)) {
    const ClusterDevice& device = cluster_.ranks_device();
    TRIREME_CHECK(
        device.price_per_hour > 0,
        "{}: devices.{}.price_per_hour = 0: without a price there is no cost; fill in what an hour of "
        "the device costs you",
        cluster_.file, cluster_.device);
    report_ = {.cluster = cluster_.cluster.name,
               .device = cluster_.device,
               .price_per_hour = device.price_per_hour,
               .steps = request.samples > 0
                            ? std::ceil(request.samples / static_cast<double>(job.train.global_batch))
                            : static_cast<double>(job.train.steps),
               .checkpoint_gb = checkpoint_gb(job)};
  }

  CostReport run() {
    add_fixed(request_.num_ranks);
    if (!request_.growth.empty()) add_growth();
    if (request_.autoscale.second > 0) add_autoscale();
    return std::move(report_);
  }

  /// The job on a constant number of ranks, for each offer.
  CostReport run_fixed(int num_ranks) {
    add_fixed(num_ranks);
    return report_;
  }

 private:
  std::size_t point(int num_ranks) {
    const auto known = std::ranges::find(report_.points, num_ranks, &ForeseenStep::num_ranks);
    if (known != report_.points.end()) return static_cast<std::size_t>(known - report_.points.begin());
    const ClusterChoice cluster = cluster_of_(num_ranks);
    TRIREME_CHECK(
        cluster.ranks_device().price_per_hour == report_.price_per_hour,
        "{}: {} ranks have the device {}, at {} an hour, and {} have {}, at {}: give both one price",
        cluster.file, num_ranks, cluster.device, cluster.ranks_device().price_per_hour, request_.num_ranks,
        report_.device, report_.price_per_hour);
    report_.points.push_back(foresee_step(job_, cluster, num_ranks, request_.on_progress));
    return report_.points.size() - 1;
  }

  std::vector<ScalePoint> scale_points() const {
    std::vector<ScalePoint> points;
    for (const ForeseenStep& step : report_.points)
      points.push_back({step.num_ranks, step.price.step_ms / 1e3});
    return points;
  }

  /// Adds a row for each offer. `num_ranks`: constant, or the maximum.
  void add_rows(CostRow row, const RankPolicy& policy) {
    const ClusterCost& prices = cluster_.cluster.cost;
    const CostedRun run{
        .points = scale_points(),
        .policy = policy,
        .steps = report_.steps,
        .checkpoint_gb = report_.checkpoint_gb,
        .kept_checkpoints = static_cast<double>(std::max<std::int64_t>(job_.checkpoint.keep, 1)),
        .save_s = request_.save_s};
    for (const auto& [offer, name] : kOffers) {
      if (offer == Offer::kPreemptible && prices.preemptible_discount == 0) continue;
      row.cost = cost_of_run(run, prices, report_.price_per_hour, offer, request_.seed);
      report_.rows.push_back(row);
    }
  }

  /// Constant number of ranks: adds the closed-form values beside the simulated ones.
  void add_fixed(int num_ranks) {
    const std::size_t first_row = report_.rows.size(), place = point(num_ranks);
    add_rows({.plan = plural(num_ranks, "rank"), .num_ranks = num_ranks}, fixed_ranks(place));
    for (CostRow& row : std::span(report_.rows).subspan(first_row)) {
      const double an_hour = rate_of(cluster_.cluster.cost, row.cost.offer) * num_ranks;
      if (an_hour == 0) continue;
      const double mtbf_s = 3600 / an_hour, save_s = std::max(row.cost.save_s, 1e-3);
      row.mtbf_hours = 1 / an_hour;
      row.young_s = young_interval_s(save_s, mtbf_s);
      row.daly_s = daly_interval_s(save_s, mtbf_s);
      row.expected_hours =
          expected_run_s({.work_s = report_.steps * report_.points[place].price.step_ms / 1e3,
                          .interval_s = row.daly_s,
                          .save_s = row.cost.save_s,
                          .restart_s = cluster_.cluster.cost.restart_s,
                          .mtbf_s = mtbf_s}) /
          3600;
    }
  }

  void add_growth() {
    std::vector<GrowthPart> parts;
    std::string plan;
    double before = 0;
    int most = 0;
    for (const GrowthWish& wish : request_.growth) {
      parts.push_back({.point = point(wish.num_ranks), .until = wish.until});
      plan += before == 0 ? fmt::format("{}", wish.num_ranks)
                          : fmt::format(", {} from {:.3g} %", wish.num_ranks, 100 * before);
      before = wish.until;
      most = std::max(most, wish.num_ranks);
    }
    const int last = request_.growth.back().num_ranks;
    if (last != request_.num_ranks) add_fixed(last);
    add_rows({.plan = plan, .num_ranks = most}, growing_ranks(parts));
  }

  /// Autoscaling over MIN, 2 MIN, 4 MIN, ... and MAX ranks.
  void add_autoscale() {
    const auto [fewest, most] = request_.autoscale;
    TRIREME_CHECK(request_.deadline_hours > 0, "--autoscale {}:{} needs --deadline HOURS", fewest, most);
    std::vector<int> numbers = doublings(fewest, most);
    if (numbers.back() != most) numbers.push_back(most);
    std::vector<ScalePoint> points;
    std::vector<std::size_t> places;
    for (const int ranks : numbers) {
      places.push_back(point(ranks));
      points.push_back({ranks, report_.points[places.back()].price.step_ms / 1e3});
    }
    const RankPolicy scaled = autoscaled_ranks(points, report_.steps, 3600 * request_.deadline_hours);
    add_rows({.plan = fmt::format("autoscale {}:{} to {:.3g} h", fewest, most, request_.deadline_hours),
              .num_ranks = most,
              .deadline_hours = request_.deadline_hours},
             [scaled, places](double done, double elapsed_s) { return places[scaled(done, elapsed_s)]; });
  }

  const JobConfig& job_;
  const ClusterOfRanks& cluster_of_;
  const CostRequest& request_;
  const ClusterChoice cluster_;  // for request_.num_ranks
  CostReport report_;
};

/// A text for a row that may miss its deadline; else empty.
std::string describe_lateness(const CostRow& row) {
  const RunOutcome& outcome = row.cost.outcome;
  if (row.deadline_hours == 0 || outcome.hours_high <= row.deadline_hours) return "";
  const std::string what = fmt::format("{}, {}:", row.plan, name_of(row.cost.offer));
  if (outcome.hours > row.deadline_hours) {
    return fmt::format("{} misses its deadline by {:.4g} h, with the fastest of these numbers of ranks\n",
                       what, outcome.hours - row.deadline_hours);
  }
  return fmt::format("{} ends in time on average, but 5 of 100 runs take {:.4g} h or more\n", what,
                     outcome.hours_high);
}

nlohmann::ordered_json json_or_null(double number) {
  return number > 0 ? nlohmann::ordered_json(number) : nlohmann::ordered_json(nullptr);
}

std::string duration_text(double seconds) {
  if (seconds <= 0) return "-";
  return seconds < 600 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} min", seconds / 60);
}

}  // namespace

std::vector<GrowthWish> parse_growth(const std::string& text) {
  std::vector<GrowthWish> growth;
  std::size_t at = 0;
  const auto refuse = [&] [[noreturn]] {
    throw Error(
        ErrorCode::kInvalidInput,
        "--grow {}: it takes RANKS:SHARE,...,RANKS, as in 4:0.5,16: shares of the steps done that rise, "
        "below 1",
        text);
  };
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const char* const stop = text.data() + end;
    GrowthWish wish;
    auto [next, error] = std::from_chars(text.data() + at, stop, wish.num_ranks);
    if (error != std::errc() || wish.num_ranks < 1) refuse();
    const bool is_last = end == text.size();
    if (!is_last) {
      if (next == stop || *next != ':') refuse();
      const auto [after, bad] = std::from_chars(next + 1, stop, wish.until);
      const double before = growth.empty() ? 0 : growth.back().until;
      if (bad != std::errc() || after != stop || !(wish.until > before && wish.until < 1)) refuse();
    } else if (next != stop) {
      refuse();
    }
    growth.push_back(wish);
    at = end + 1;
  }
  return growth;
}

CostReport cost_of_job(const JobConfig& job, const ClusterOfRanks& cluster_of, const CostRequest& request) {
  return Pricing(job, cluster_of, request).run();
}

std::string to_text(const CostReport& report) {
  std::string text = wrapped(
      fmt::format("on {} ({}), {:.4g} an hour each; {:.0f} steps, a checkpoint has {:.3g} GB; steps as "
                  "predicted, interruptions "
                  "simulated (mean of 200 runs; 5 to 95 of 100 take the hours in brackets)",
                  report.cluster, report.device, report.price_per_hour, report.steps, report.checkpoint_gb));
  TextRows rows{{"ranks", "offer", "hours", "", "interruptions", "save every", "(Young)", "done again h",
                 "devices", "storage", "network", "total", "against the first"}};
  const double first = report.rows.empty() ? 0 : report.rows[0].cost.total();
  for (const CostRow& row : report.rows) {
    const RunCost& cost = row.cost;
    const RunOutcome& outcome = cost.outcome;
    rows.push_back({row.plan, name_of(cost.offer), fmt::format("{:.4g}", outcome.hours),
                    fmt::format("[{:.4g} {:.4g}]", outcome.hours_low, outcome.hours_high),
                    fmt::format("{:.3g}", outcome.interruptions), duration_text(row.daly_s),
                    duration_text(row.young_s), fmt::format("{:.3g}", outcome.lost_hours),
                    fmt::format("{:.2f}", cost.devices), fmt::format("{:.2f}", cost.storage),
                    fmt::format("{:.2f}", cost.network), fmt::format("{:.2f}", cost.total()),
                    fmt::format("{:+.1f} %", 100 * (cost.total() / first - 1))});
  }
  text += to_text(rows, {.num_left = 2, .num_kept = 13});
  for (const CostRow& row : report.rows) text += describe_lateness(row);
  for (const ForeseenStep& point : report.points) {
    text += fmt::format("{}: {:.4g} ms a step, MFU {:.1f} %{}\n", plural(point.num_ranks, "rank"),
                        point.price.step_ms, 100 * point.price.mfu,
                        point.fits()
                            ? ""
                            : fmt::format("; it needs {} a rank, and there are {}",
                                          short_bytes(point.peak_bytes), short_bytes(point.limit_bytes)));
  }
  return text;
}

nlohmann::ordered_json to_json(const CostReport& report) {
  using Json = nlohmann::ordered_json;
  Json points = Json::array(), rows = Json::array();
  for (const ForeseenStep& point : report.points) {
    points.push_back({{"ranks", point.num_ranks},
                      {"step_ms", point.price.step_ms},
                      {"peak_bytes", point.peak_bytes},
                      {"fits", point.fits()}});
  }
  for (const CostRow& row : report.rows) {
    const RunOutcome& outcome = row.cost.outcome;
    rows.push_back({{"plan", row.plan},
                    {"offer", name_of(row.cost.offer)},
                    {"hours", outcome.hours},
                    {"hours_low", outcome.hours_low},
                    {"hours_high", outcome.hours_high},
                    {"expected_hours", json_or_null(row.expected_hours)},
                    {"deadline_hours", json_or_null(row.deadline_hours)},
                    {"device_hours", outcome.device_hours},
                    {"interruptions", outcome.interruptions},
                    {"lost_hours", outcome.lost_hours},
                    {"mtbf_hours", json_or_null(row.mtbf_hours)},
                    {"save_s", row.cost.save_s},
                    {"young_interval_s", json_or_null(row.young_s)},
                    {"daly_interval_s", json_or_null(row.daly_s)},
                    {"devices", row.cost.devices},
                    {"storage", row.cost.storage},
                    {"network", row.cost.network},
                    {"total", row.cost.total()}});
  }
  return {{"cluster", report.cluster},
          {"device", report.device},
          {"price_per_hour", report.price_per_hour},
          {"steps", report.steps},
          {"checkpoint_gb", report.checkpoint_gb},
          {"points", points},
          {"plans", rows}};
}

LinePlot cost_plot(const JobConfig& job, const ClusterOfRanks& cluster_of, const CostRequest& request) {
  const ClusterChoice cluster = cluster_of(request.num_ranks);
  LinePlot plot{.title = fmt::format("Cost on {} ({}), predicted", cluster.cluster.name, cluster.device),
                .x_label = "ranks",
                .y_label = "cost"};
  for (const int ranks : doublings(1, request.num_ranks)) {
    CostReport report;
    try {
      report = Pricing(job, cluster_of, request).run_fixed(ranks);
      if (!report.points[0].fits()) continue;
    } catch (const Error& error) {  // no layout for this number of ranks
      if (error.code() != ErrorCode::kInvalidInput && error.code() != ErrorCode::kUnsupported) throw;
      continue;
    }
    for (const CostRow& row : report.rows) {
      const std::string name = name_of(row.cost.offer);
      auto series = std::ranges::find(plot.series, name, &PlotSeries::name);
      if (series == plot.series.end()) series = plot.series.insert(series, {name, {}});
      series->points.emplace_back(ranks, row.cost.total());
    }
  }
  return plot;
}

}  // namespace trireme
