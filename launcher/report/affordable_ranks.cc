#include "launcher/report/affordable_ranks.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "launcher/config/field_keys.h"
#include "launcher/render/text_table.h"
#include "launcher/report/foreseen_step.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

bool is_within(const AffordableRow& row, const AffordableRequest& request) {
  return row.hours > 0 && row.cost <= request.budget.value_or(row.cost) &&
         row.hours <= request.deadline_hours.value_or(row.hours);
}

/// Sort key: the smallest row is chosen.
std::tuple<double, int> rank_of(const AffordableRow& row, const AffordableRequest& request) {
  return {request.deadline_hours ? row.cost : row.hours, row.num_ranks};
}

/// Price of a device per hour; 0: unknown.
double price_of(const ClusterChoice& cluster, const AffordableRequest& request) {
  const double price = cluster.ranks_device().price_per_hour;
  TRIREME_CHECK(
      !request.budget || price > 0,
      "--budget {}: {}: devices.{}.price_per_hour = 0; fill in what an hour of the device costs you",
      request.budget.value_or(0), cluster.file, cluster.device);
  return price;
}

/// "; 64 ranks come closest": compared by hours, or by cost if there is only a budget.
std::string closest(const AffordableRanks& found) {
  const AffordableRow* best = nullptr;
  const auto need = [&](const AffordableRow& row) {
    return found.request.deadline_hours ? row.hours : row.cost;
  };
  for (const AffordableRow& row : found.rows) {
    if (row.hours > 0 && (best == nullptr || need(row) < need(*best))) best = &row;
  }
  if (best == nullptr) return "";
  return fmt::format("; {} come{} closest: {:.4g} h, {:.4g}", plural(best->num_ranks, "rank"),
                     best->num_ranks == 1 ? "s" : "", best->hours, best->cost);
}

}  // namespace

AffordableRanks find_affordable_ranks(const JobConfig& job, const ClusterOfRanks& cluster_of,
                                      const AffordableRequest& request) {
  AffordableRanks found{.request = request};
  for (const int ranks : doublings(1, request.most_ranks)) {
    AffordableRow row{.num_ranks = ranks};
    std::optional<ClusterChoice> cluster;
    try {
      cluster = cluster_of(ranks);
    } catch (const Error& error) {  // no device measured for this number of ranks
      if (error.code() != ErrorCode::kInvalidInput) throw;
      row.layout = with_keys(error.what());
      found.rows.push_back(std::move(row));
      continue;
    }
    const double price = price_of(*cluster, request);
    const int machine =
        request.ranks_per_machine > 0 ? request.ranks_per_machine : cluster->cluster.ranks_per_node;
    try {
      LayoutsReport layouts = find_layouts(job, *cluster,
                                           {.num_ranks = ranks,
                                            .ranks_per_machine = std::min(ranks, machine),
                                            .varies_micro_batch = request.varies_micro_batch,
                                            .on_progress = request.on_progress});
      if (layouts.found.best.empty()) {
        row.layout = fmt::format("none fits: the closest needs {} of {}",
                                 short_bytes(layouts.found.closest_bytes), short_bytes(layouts.limit_bytes));
      } else {
        row.hours = layouts.found.best[0].price.step_ms / 3.6e6 * static_cast<double>(job.train.steps);
        row.cost = row.hours * ranks * price;
        row.layout = layout_text(layouts.found.best[0].job);
      }
      const bool better =
          is_within(row, request) &&
          (!found.chosen || rank_of(row, request) < rank_of(found.rows[*found.chosen], request));
      if (better) {
        found.chosen = found.rows.size();
        found.layouts = std::move(layouts);
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidInput && error.code() != ErrorCode::kUnsupported) throw;
      row.layout = with_keys(error.what());
    }
    found.rows.push_back(std::move(row));
  }
  return found;
}

std::string to_text(const AffordableRanks& found) {
  TextRows rows{{"ranks", "hours", "cost", "the fastest layout"}};
  for (const AffordableRow& row : found.rows) {
    rows.push_back({fmt::format("{}", row.num_ranks), row.hours > 0 ? fmt::format("{:.4g}", row.hours) : "-",
                    row.cost > 0 ? fmt::format("{:.2f}", row.cost) : "-", row.layout});
  }
  std::string text = to_text(rows, {.num_left = 1, .num_kept = 4, .most_rows = 32});
  std::string wish;
  if (found.request.budget) wish = fmt::format("costs at most {:.2f}", *found.request.budget);
  if (found.request.deadline_hours) {
    wish += fmt::format("{}ends within {:.4g} h", wish.empty() ? "" : " and ", *found.request.deadline_hours);
  }
  if (!found.chosen) return text + fmt::format("nothing {}{}\n", wish, closest(found));
  const AffordableRow& row = found.rows[*found.chosen];
  return text +
         fmt::format("{}: {} that {}\n\n", plural(row.num_ranks, "rank"),
                     found.request.deadline_hours ? "the cheapest" : "the fastest", wish) +
         to_text(*found.layouts);
}

nlohmann::ordered_json to_json(const AffordableRanks& found) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const AffordableRow& row : found.rows) {
    rows.push_back(
        {{"ranks", row.num_ranks}, {"hours", row.hours}, {"cost", row.cost}, {"layout", row.layout}});
  }
  Json json = {{"numbers_of_ranks", rows}, {"chosen_ranks", nullptr}};
  if (found.chosen) {
    json["chosen_ranks"] = found.rows[*found.chosen].num_ranks;
    json["layouts"] = to_json(*found.layouts);
  }
  return json;
}

}  // namespace trireme
