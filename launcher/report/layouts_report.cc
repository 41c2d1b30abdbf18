#include "launcher/report/layouts_report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/config/layout_keys.h"
#include "launcher/config/words.h"
#include "launcher/host/machine.h"
#include "launcher/report/plan_report.h"
#include "launcher/report/text_table.h"
#include "launcher/train/build.h"
#include "launcher/train/memory_fit.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

/// What the search begins with. Of a job that leaves it the layout, what is open has its default already.
JobConfig without_layout(JobConfig config) {
  ParallelSection& parallel = config.parallel;
  parallel.pipeline = parallel.tensor = parallel.chunks = 1;
  parallel.zero = parallel.recompute_every = 0;
  parallel.sequence = false;
  parallel.recompute = Recompute::kNone;
  parallel.schedule = PipelineSchedule::kOneForwardOneBackward;
  parallel.pipeline_cut = {};
  parallel.layout = LayoutChoice::kGiven;
  parallel.fixed.clear();
  parallel.cluster.clear();
  parallel.cluster_device.clear();
  return config;
}

FixedLayout fixed_layout(const ParallelSection& parallel) {
  if (!parallel.is_searched()) return {};
  const auto fixed = [&]<class T>(const char* key, T value) {
    return parallel.fixed.contains(key) ? std::optional<T>(value) : std::nullopt;
  };
  return {.tensor = fixed("tensor", static_cast<int>(parallel.tensor)),
          .stages = fixed("pipeline", static_cast<int>(parallel.pipeline)),
          .chunks = fixed("chunks", static_cast<int>(parallel.chunks)),
          .recompute_every = fixed("recompute_every", static_cast<int>(parallel.recompute_every)),
          .sequence = fixed("sequence", parallel.sequence),
          .zero = fixed("zero", static_cast<ZeroStage>(parallel.zero)),
          .schedule = fixed("schedule", parallel.schedule),
          .recompute = fixed("recompute", parallel.recompute)};
}

JobConfig with_layout(const JobConfig& job, const EngineOptions& options) {
  JobConfig config = without_layout(job);
  config.train.micro_batch = options.micro_batch;
  ParallelSection& parallel = config.parallel;
  parallel.tensor = options.tensor;
  parallel.sequence = options.sequence;
  parallel.pipeline = options.pipeline.stages;
  parallel.schedule = options.pipeline.schedule;
  parallel.chunks = options.pipeline.chunks;
  parallel.zero = static_cast<std::int64_t>(options.zero);
  parallel.recompute_every = options.recompute_every;
  parallel.recompute = options.recompute;
  parallel.exchange = options.exchange;
  parallel.accumulate_unsharded = options.accumulate_unsharded;
  parallel.keep_gathered = options.keep_gathered;
  return config;
}

std::string recompute_text(const EngineOptions& options) {
  if (options.recompute_every > 0) return fmt::format("every {}", options.recompute_every);
  return options.recompute == Recompute::kNone ? "-" : "selective";
}

std::string schedule_text(const PipelineOptions& pipeline) {
  if (pipeline.stages == 1) return "-";
  const std::string word(name(pipeline.schedule));
  return pipeline.chunks > 1 ? fmt::format("{} x {}", word, pipeline.chunks) : word;
}

int data_ranks(const PlannedJob& job) {
  return job.num_ranks / (job.options.pipeline.stages * job.options.tensor);
}

/// Waits for other ranks, exchanges left out.
double waits_ms(const PlanPrice& price) {
  return price.step_ms - price.exposed_ms - price.compute_ms;
}

/// The largest loss against the layout before.
std::string why_slower(const PlanPrice& before, const PlanPrice& price) {
  const std::pair<double, const char*> losses[] = {
      {price.compute_ms - before.compute_ms, "computes"},
      {waits_ms(price) - waits_ms(before), "waits"},
      {price.exposed_ms - before.exposed_ms, "communicates"},
  };
  const auto& [ms, what] = *std::ranges::max_element(losses);
  return ms <= 0 ? "as fast" : fmt::format("{} {:.3g} ms more", what, ms);
}

std::string describe_layout(const PlannedJob& job) {
  const EngineOptions& options = job.options;
  const PipelineOptions& pipeline = options.pipeline;
  const std::string chunks = pipeline.chunks > 1 ? fmt::format(", chunks = {}", pipeline.chunks) : "";
  return fmt::format(
      "tensor = {}, pipeline = {}{}, {} data rank(s), zero = {}, recompute_every = {}, micro_batch = {}",
      options.tensor, pipeline.stages, chunks, data_ranks(job), static_cast<int>(options.zero),
      options.recompute_every, options.micro_batch);
}

/// Of the job's steps with one of the layouts.
double cost_of(const LayoutsReport& report, std::size_t layout) {
  const auto steps = static_cast<double>(report.configs[layout].train.steps);
  return report.found.best[layout].price.step_ms / 3.6e6 * steps * report.num_ranks * report.price_per_hour;
}

/// By the job's keys, and the number of data ranks.
Json layout_json(const PlannedJob& job) {
  const EngineOptions& options = job.options;
  const PipelineOptions& pipeline = options.pipeline;
  return {{"tensor", options.tensor},
          {"sequence", options.sequence},
          {"pipeline", pipeline.stages},
          {"pipeline_cut", pipeline.cut.empty() ? Json("flops") : Json(pipeline.cut)},
          {"data", data_ranks(job)},
          {"schedule", name(pipeline.schedule)},
          {"chunks", pipeline.chunks},
          {"zero", static_cast<int>(options.zero)},
          {"exchange", to_word(options.exchange)},
          {"accumulate_unsharded", options.accumulate_unsharded},
          {"keep_gathered", options.keep_gathered},
          {"recompute_every", options.recompute_every},
          {"recompute", name(options.recompute)},
          {"micro_batch", options.micro_batch}};
}

std::function<void(const SearchProgress&)> progress_of_search(const LayoutsRequest& request) {
  if (!request.on_progress) return {};
  return [&request](const SearchProgress& progress) {
    const std::string best =
        progress.best_ms > 0 ? fmt::format(", best so far {:.4g} ms", progress.best_ms) : "";
    request.on_progress(fmt::format(
        "search on {} rank{}: {} open, of {:.4g} ms a step or more; {} timed, {} need more memory{}",
        request.num_ranks, request.num_ranks == 1 ? "" : "s", progress.num_open, progress.open_ms,
        progress.num_timed, progress.num_too_large, best));
  };
}

}  // namespace

LayoutsReport find_layouts(const JobConfig& job, const ClusterChoice& cluster,
                           const LayoutsRequest& request) {
  const ClusterDevice& device = cluster.ranks_device();
  LayoutsReport report{.cluster = cluster.cluster.name,
                       .device = cluster.device,
                       .num_ranks = request.num_ranks,
                       .limit_bytes = request.limit_bytes,
                       .global_batch = job.train.global_batch,
                       .micro_batch = job.train.micro_batch,
                       .price_per_hour = device.price_per_hour,
                       .fixed = describe_fixed(job)};
  if (report.limit_bytes == 0) {
    const MeasuredCard card = card_of(cluster);
    report.limit_bytes = planned_limit(job, request.num_ranks, 0, &card).bytes;
  }
  JobConfig config = without_layout(job);
  config.parallel.device = device.type;
  config.parallel.hosts =
      request.hosts.empty() ? hosts_of(request.num_ranks, request.ranks_per_machine) : request.hosts;
  const PlannedJob planned = planned_job(config, build_blocks(config.model), request.num_ranks);
  report.found = priced_on(cluster, [&] {
    return search_layouts(
        planned, cluster.cluster, device, report.limit_bytes,
        {.most = request.most,
         .varies_micro_batch = request.varies_micro_batch,
         .accumulation = {.accumulate_unsharded = job.parallel.accumulate_unsharded,
                          .keep_gathered = job.parallel.keep_gathered},
         .uses_whole_limit = job.parallel.memory_limit > 0,
         .fixed = fixed_layout(job.parallel),
         .threads = count_cores().usable(),
         .check = [&](const EngineOptions& options) { check_config(with_layout(job, options)); },
         .on_progress = progress_of_search(request)});
  });
  for (const FoundLayout& found : report.found.best) {
    report.configs.push_back(with_layout(job, found.job.options));
  }
  return report;
}

std::string describe_none(const LayoutsReport& report) {
  const FoundLayouts& found = report.found;
  const std::string fixed =
      report.fixed.empty() ? "" : fmt::format(" with {}", fmt::join(report.fixed, ", "));
  if (!found.closest && report.global_batch % report.micro_batch != 0) {
    return fmt::format("train.micro_batch = {} does not divide train.global_batch = {}: change one of them",
                       report.micro_batch, report.global_batch);
  }
  if (!found.closest) {
    return fmt::format(
        "no layout{} divides these ranks so that each data rank has one of the {} micro-batches, and each "
        "chunk "
        "of a stage a block: change {}their number, train.micro_batch or train.global_batch",
        fixed, report.global_batch / report.micro_batch, fixed.empty() ? "" : "these keys, ");
  }
  return fmt::format("no layout{} fits; closest is {}: it needs {}, {} more than a rank has", fixed,
                     describe_layout(*found.closest), format_bytes(found.closest_bytes),
                     format_bytes(found.closest_bytes - report.limit_bytes));
}

std::string to_text(const LayoutsReport& report) {
  const FoundLayouts& found = report.found;
  std::string text = wrapped(fmt::format(
      "{} layouts on {} rank{} of {} ({}), {} a rank: {} timed, {} need more memory, {} refused, the others "
      "cannot be faster",
      found.num_candidates, report.num_ranks, report.num_ranks == 1 ? "" : "s", report.cluster, report.device,
      short_bytes(report.limit_bytes), found.num_timed, found.num_too_large, found.num_refused));
  if (found.best.empty()) return text + wrapped(describe_none(report));
  TextRows rows{{"tensor", "pipeline", "data", "zero", "schedule", "recompute", "micro", "ms/step", "memory",
                 "MFU %", "bubble %", "exposed ms", "against the one above"}};
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const FoundLayout& layout = found.best[i];
    const EngineOptions& options = layout.job.options;
    const PlanPrice& price = layout.price;
    rows.push_back({fmt::format("{}{}", options.tensor, options.sequence ? " sequence" : ""),
                    fmt::format("{}", options.pipeline.stages), fmt::format("{}", data_ranks(layout.job)),
                    fmt::format("{}{}", static_cast<int>(options.zero),
                                options.exchange == Exchange::kFlat ? " flat" : ""),
                    schedule_text(options.pipeline), recompute_text(options),
                    fmt::format("{}", options.micro_batch), fmt::format("{:.4g}", price.step_ms),
                    short_bytes(layout.peak_bytes), fmt::format("{:.1f}", 100 * price.mfu),
                    fmt::format("{:.1f}", 100 * price.bubble_share), fmt::format("{:.3g}", price.exposed_ms),
                    i == 0 ? "" : why_slower(found.best[i - 1].price, price)});
  }
  text += to_text(rows, {.num_left = 6, .num_kept = 13});
  if (report.price_per_hour > 0) {
    text +=
        fmt::format("{} steps with the first: {:.2f}\n", report.configs[0].train.steps, cost_of(report, 0));
  }
  return text;
}

std::string to_json(const LayoutsReport& report) {
  const FoundLayouts& found = report.found;
  Json layouts = Json::array();
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const FoundLayout& layout = found.best[i];
    Json& json = layouts.emplace_back(layout_json(layout.job));
    json["step_ms"] = layout.price.step_ms;
    json["peak_bytes"] = layout.peak_bytes;
    json["mfu"] = layout.price.mfu;
    json["bubble_share"] = layout.price.bubble_share;
    json["exposed_communication_ms"] = layout.price.exposed_ms;
    json["cost"] = report.price_per_hour > 0 ? Json(cost_of(report, i)) : Json(nullptr);
  }
  Json json = {{"cluster", report.cluster},
               {"device", report.device},
               {"ranks", report.num_ranks},
               {"limit_bytes", report.limit_bytes},
               {"candidates", report.found.num_candidates},
               {"too_large", report.found.num_too_large},
               {"refused", report.found.num_refused},
               {"timed", report.found.num_timed},
               {"layouts", layouts}};
  if (found.best.empty()) json["none"] = describe_none(report);
  if (found.best.empty() && found.closest) {
    json["closest"] = layout_json(*found.closest);
    json["closest"]["peak_bytes"] = found.closest_bytes;
  }
  return json.dump(1) + "\n";
}

}  // namespace trireme
