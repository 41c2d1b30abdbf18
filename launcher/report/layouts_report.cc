#include "launcher/report/layouts_report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/config/words.h"
#include "launcher/host/machine.h"
#include "launcher/job/build.h"
#include "launcher/job/memory_fit.h"
#include "launcher/keys/job_file.h"
#include "launcher/keys/layout_keys.h"
#include "launcher/render/text_table.h"
#include "launcher/report/layout_json.h"
#include "launcher/report/plan_report.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

/// The fields that the search may choose. For a job with a given layout: all, except the exchange and the
/// fields chosen by memory that the job sets.
OpenFields open_fields(const ParallelSection& parallel) {
  if (parallel.is_searched()) return parallel.open;
  OpenFields open = searched_fields();
  open.erase("exchange");
  for (const std::string& field : fields_by_memory()) {
    if (!parallel.open.contains(field)) open.erase(field);
  }
  return open;
}

/// `job` with `layout` and no open fields.
JobConfig with_layout(const JobConfig& job, const Layout& layout) {
  JobConfig config = job;
  ParallelSection& parallel = config.parallel;
  parallel.choice = LayoutChoice::kGiven;
  parallel.layout = layout;
  parallel.layout.cut.clear();
  parallel.open.clear();
  parallel.pipeline_cut = {};
  parallel.cluster.clear();
  parallel.cluster_device.clear();
  return config;
}

JobConfig with_layout(const JobConfig& job, const EngineOptions& options) {
  JobConfig config = with_layout(job, options.layout);
  config.train.micro_batch = options.micro_batch;
  return config;
}

int data_ranks(const PlannedJob& job) {
  return job.options.layout.data_ranks(job.num_ranks);
}

/// Time waiting for other ranks, without exchanges.
double waits_ms(const PlanPrice& price) {
  return price.step_ms - price.exposed_ms - price.compute_ms;
}

/// The main reason why a layout is slower than the one before.
std::string why_slower(const PlanPrice& before, const PlanPrice& price) {
  const std::pair<double, const char*> losses[] = {
      {price.compute_ms - before.compute_ms, "computes"},
      {waits_ms(price) - waits_ms(before), "waits"},
      {price.exposed_ms - before.exposed_ms, "communicates"},
  };
  const auto& [ms, what] = *std::ranges::max_element(losses);
  return ms <= 0 ? "as fast" : fmt::format("{} {:.3g} ms more", what, ms);
}

/// Cost of the job's steps with one of the layouts.
double cost_of(const LayoutsReport& report, std::size_t layout) {
  const auto steps = static_cast<double>(report.configs[layout].train.steps);
  return report.found.best[layout].price.step_ms / 3.6e6 * steps * report.num_ranks * report.price_per_hour;
}

/// The layout's fields by their keys, and the number of data ranks.
Json layout_json(const PlannedJob& job) {
  Json json = layout_json(job.options.layout);
  json["data"] = data_ranks(job);
  json["micro_batch"] = job.options.micro_batch;
  return json;
}

std::function<void(const SearchProgress&)> progress_of_search(const LayoutsRequest& request) {
  if (!request.on_progress) return {};
  return [&request](const SearchProgress& progress) {
    const std::string best =
        progress.best_ms > 0 ? fmt::format(", best so far {:.4g} ms", progress.best_ms) : "";
    request.on_progress(
        fmt::format("search on {}: {} open, of {:.4g} ms a step or more; {} simulated, {} need more memory{}",
                    plural(request.num_ranks, "rank"), progress.num_open, progress.open_ms,
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
  const OpenFields open = open_fields(job.parallel);
  JobConfig config = with_layout(job, without(job.parallel.layout, open));
  config.parallel.device = device.type;
  config.parallel.hosts =
      request.hosts.empty() ? hosts_of(request.num_ranks, request.ranks_per_machine) : request.hosts;
  const PlannedJob planned = planned_job(config, build_blocks(config.model), request.num_ranks);
  report.found = priced_on(cluster, [&] {
    return search_layouts(
        planned, cluster.cluster, device, report.limit_bytes,
        {.most = request.most,
         .varies_micro_batch = request.varies_micro_batch,
         .uses_whole_limit = job.parallel.memory_limit > 0,
         .open = open,
         .threads = count_cores().usable(),
         .check = [&](const EngineOptions& options) { check_config(with_layout(job, options)); },
         .on_progress = progress_of_search(request)});
  });
  for (const FoundLayout& found : report.found.best) {
    report.configs.push_back(with_layout(job, found.job.options));
  }
  return report;
}

std::string layout_text(const PlannedJob& job) {
  const Layout& layout = job.options.layout;
  const std::string chunks = layout.chunks > 1 ? fmt::format(", chunks = {}", layout.chunks) : "";
  return fmt::format(
      "tensor = {}, pipeline = {}{}, {} data rank(s), zero = {}, recompute {}, micro_batch = {}",
      layout.tensor, layout.pipeline, chunks, data_ranks(job), static_cast<int>(layout.zero),
      recompute_text(layout), job.options.micro_batch);
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
                     layout_text(*found.closest), format_bytes(found.closest_bytes),
                     format_bytes(found.closest_bytes - report.limit_bytes));
}

std::string to_text(const LayoutsReport& report) {
  const FoundLayouts& found = report.found;
  std::string text = wrapped(fmt::format(
      "{} layouts on {} of {} ({}), {} a rank: {} simulated, {} need more memory, {} refused, the others "
      "cannot be faster",
      found.num_candidates, plural(report.num_ranks, "rank"), report.cluster, report.device,
      short_bytes(report.limit_bytes), found.num_timed, found.num_too_large, found.num_refused));
  if (found.best.empty()) return text + wrapped(describe_none(report));
  TextRows rows{{"tensor", "pipeline", "data", "zero", "schedule", "recompute", "micro", "ms/step", "memory",
                 "MFU %", "bubble %", "exposed ms", "against the one above"}};
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const FoundLayout& layout = found.best[i];
    const Layout& shared = layout.job.options.layout;
    const PlanPrice& price = layout.price;
    rows.push_back({fmt::format("{}{}", shared.tensor, shared.sequence ? " sequence" : ""),
                    fmt::format("{}", shared.pipeline), fmt::format("{}", data_ranks(layout.job)),
                    fmt::format("{}{}", static_cast<int>(shared.zero),
                                shared.exchange == Exchange::kFlat ? " flat" : ""),
                    schedule_text(shared), recompute_text(shared),
                    fmt::format("{}", layout.job.options.micro_batch), fmt::format("{:.4g}", price.step_ms),
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

nlohmann::ordered_json to_json(const LayoutsReport& report) {
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
  return json;
}

}  // namespace trireme
