#include "launcher/report/cost_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/report/text_table.h"
#include "launcher/train/build.h"
#include "parallel/cost/checkpoint_interval.h"
#include "parallel/cost/rank_policy.h"
#include "runtime/base/error.h"
#include "runtime/optim/optimizer.h"

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

/// Parameters and optimizer state in fp32, as a checkpoint has them.
double checkpoint_gb(const JobConfig& job) {
  const auto blocks = build_blocks(job.model);
  const EngineOptions options = engine_options(job, *blocks);
  const std::size_t states = make_optimizer(options.optimizer)->state_names().size();
  const auto elems =
      static_cast<double>(engine_on_meta(planned_job(job, blocks, 1))->layout().num_parameters);
  return elems * 4 * static_cast<double>(1 + states) * 1e-9;
}

double rate_of(const ClusterCost& cost, Offer offer) {
  return cost.failures_per_hour + (offer == Offer::kPreemptible ? cost.interruptions_per_hour : 0);
}

/// Prices the policies of a job whose steps are known.
class Pricing {
 public:
  Pricing(const JobConfig& job, const ClusterChoice& cluster, const CostRequest& request)
      : job_(job), cluster_(cluster), request_(request) {
    const ClusterDevice& device = cluster.ranks_device();
    TRIREME_CHECK(
        device.price_per_hour > 0,
        "{}: devices.{}.price_per_hour = 0: without a price there is no cost; fill in what an hour of "
        "the device costs you",
        cluster.file, cluster.device);
    JobConfig one = job;
    one.parallel.pipeline = one.parallel.tensor = one.parallel.chunks = 1;
    one.parallel.sequence = false;
    one.parallel.zero = 0;
    one.parallel.schedule = PipelineSchedule::kOneForwardOneBackward;
    one.parallel.pipeline_cut = {};
    one.train.global_batch = one.train.micro_batch;
    report_ = {.cluster = cluster.cluster.name,
               .device = cluster.device,
               .price_per_hour = device.price_per_hour,
               .steps = request.samples > 0
                            ? std::ceil(request.samples / static_cast<double>(job.train.global_batch))
                            : static_cast<double>(job.train.steps),
               .checkpoint_gb = checkpoint_gb(one)};
  }

  CostReport run() {
    add_rows(fmt::format("{} ranks", request_.num_ranks), fixed_ranks(point(request_.num_ranks)),
             request_.num_ranks);
    if (!request_.growth.empty()) add_growth();
    if (request_.autoscale.second > 0) add_autoscale();
    return std::move(report_);
  }

  /// The job on so many ranks throughout, on each offer.
  CostReport run_fixed(int num_ranks) {
    add_rows("", fixed_ranks(point(num_ranks)), num_ranks);
    return report_;
  }

 private:
  std::size_t point(int num_ranks) {
    const auto known = std::ranges::find(report_.points, num_ranks, &ForeseenStep::num_ranks);
    if (known != report_.points.end()) return static_cast<std::size_t>(known - report_.points.begin());
    report_.points.push_back(foresee_step(job_, cluster_, num_ranks));
    return report_.points.size() - 1;
  }

  std::vector<ScalePoint> scale_points() const {
    std::vector<ScalePoint> points;
    for (const ForeseenStep& step : report_.points)
      points.push_back({step.num_ranks, step.price.step_ms / 1e3});
    return points;
  }

  void add_rows(const std::string& plan, const RankPolicy& policy, int num_ranks) {
    const ClusterCost& prices = cluster_.cluster.cost;
    CostedRun run{.points = scale_points(),
                  .policy = policy,
                  .steps = report_.steps,
                  .checkpoint_gb = report_.checkpoint_gb,
                  .kept_checkpoints = static_cast<double>(std::max<std::int64_t>(job_.checkpoint.keep, 1)),
                  .save_s = request_.save_s};
    for (const auto& [offer, name] : kOffers) {
      if (offer == Offer::kPreemptible && prices.preemptible_discount == 0) continue;
      CostRow row{.plan = plan,
                  .num_ranks = num_ranks,
                  .cost = cost_of_run(run, prices, report_.price_per_hour, offer, request_.seed)};
      const double an_hour = rate_of(prices, offer) * num_ranks;
      if (an_hour > 0) {
        const double mtbf_s = 3600 / an_hour, save_s = std::max(row.cost.save_s, 1e-3);
        row.mtbf_hours = 1 / an_hour;
        row.young_s = young_interval_s(save_s, mtbf_s);
        row.daly_s = daly_interval_s(save_s, mtbf_s);
        const double work_s = report_.steps * run.points[policy(0, 0)].step_s;
        row.expected_hours = expected_run_s({.work_s = work_s,
                                             .interval_s = row.daly_s,
                                             .save_s = row.cost.save_s,
                                             .restart_s = prices.restart_s,
                                             .mtbf_s = mtbf_s}) /
                             3600;
      }
      report_.rows.push_back(std::move(row));
    }
  }

  void add_growth() {
    std::vector<GrowthPart> parts;
    std::string plan;
    double before = 0;
    for (const GrowthWish& wish : request_.growth) {
      parts.push_back({.point = point(wish.num_ranks), .until = wish.until});
      plan += before == 0 ? fmt::format("{}", wish.num_ranks)
                          : fmt::format(", {} from {:.3g} %", wish.num_ranks, 100 * before);
      before = wish.until;
    }
    const int last = request_.growth.back().num_ranks;
    if (last != request_.num_ranks) add_rows(fmt::format("{} ranks", last), fixed_ranks(point(last)), last);
    add_rows(plan, growing_ranks(parts), last);
  }

  void add_autoscale() {
    TRIREME_CHECK(request_.deadline_hours > 0, "--autoscale {}:{} needs --deadline HOURS",
                  request_.autoscale.first, request_.autoscale.second);
    std::vector<ScalePoint> points;
    std::vector<std::size_t> places;
    for (const int ranks : doublings(request_.autoscale.first, request_.autoscale.second)) {
      places.push_back(point(ranks));
      points.push_back({ranks, report_.points[places.back()].price.step_ms / 1e3});
    }
    const RankPolicy scaled = autoscaled_ranks(points, report_.steps, 3600 * request_.deadline_hours);
    add_rows(
        fmt::format("autoscale {}:{} to {:.3g} h", request_.autoscale.first, request_.autoscale.second,
                    request_.deadline_hours),
        [scaled, places](double done, double elapsed_s) { return places[scaled(done, elapsed_s)]; },
        request_.autoscale.second);
  }

  const JobConfig& job_;
  const ClusterChoice& cluster_;
  const CostRequest& request_;
  CostReport report_;
};

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

CostReport cost_of_job(const JobConfig& job, const ClusterChoice& cluster, const CostRequest& request) {
  return Pricing(job, cluster, request).run();
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
  for (const ForeseenStep& point : report.points) {
    text += fmt::format("{} ranks: {:.4g} ms a step, MFU {:.1f} %{}\n", point.num_ranks, point.price.step_ms,
                        100 * point.price.mfu,
                        point.fits()
                            ? ""
                            : fmt::format("; it needs {} a rank, and there are {}",
                                          short_bytes(point.peak_bytes), short_bytes(point.limit_bytes)));
  }
  return text;
}

std::string to_json(const CostReport& report) {
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
                    {"expected_hours", row.expected_hours},
                    {"device_hours", outcome.device_hours},
                    {"interruptions", outcome.interruptions},
                    {"lost_hours", outcome.lost_hours},
                    {"mtbf_hours", row.mtbf_hours},
                    {"save_s", row.cost.save_s},
                    {"young_interval_s", row.young_s},
                    {"daly_interval_s", row.daly_s},
                    {"devices", row.cost.devices},
                    {"storage", row.cost.storage},
                    {"network", row.cost.network},
                    {"total", row.cost.total()}});
  }
  const Json json = {{"cluster", report.cluster},
                     {"device", report.device},
                     {"price_per_hour", report.price_per_hour},
                     {"steps", report.steps},
                     {"checkpoint_gb", report.checkpoint_gb},
                     {"points", points},
                     {"plans", rows}};
  return json.dump(1) + "\n";
}

LinePlot cost_plot(const JobConfig& job, const ClusterChoice& cluster, const CostRequest& request) {
  LinePlot plot{.title = fmt::format("Cost on {} ({}), predicted", cluster.cluster.name, cluster.device),
                .x_label = "ranks",
                .y_label = "cost"};
  for (const int ranks : doublings(1, request.num_ranks)) {
    CostReport report;
    try {
      report = Pricing(job, cluster, request).run_fixed(ranks);
      if (!report.points[0].fits()) continue;
    } catch (const Error& error) {  // no layout for so many or so few
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
