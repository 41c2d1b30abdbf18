// The number of ranks, and their layout, for a budget or a deadline: `trireme plan --search --budget`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/report/layouts_report.h"

namespace trireme {

struct AffordableRequest {
  std::optional<double> budget;  // the fastest that costs no more
  std::optional<double>
      deadline_hours;  // the cheapest, or without prices the fewest ranks, that ends by then
  int most_ranks = 1;
  int ranks_per_machine = 0;  // 0: the cluster's
  bool varies_micro_batch = false;
  TellProgress on_progress = {};
};

struct AffordableRow {
  int num_ranks = 1;
  double hours = 0, cost = 0;  // of train.steps; 0: no layout fits
  std::string layout;          // or why there is none
};

struct AffordableRanks {
  std::vector<AffordableRow> rows;  // 1, 2, 4, ... ranks
  std::optional<std::size_t> chosen;
  std::optional<LayoutsReport> layouts;  // of the chosen
  AffordableRequest request;
};

/// Searches the layouts of every number of ranks. Throws Error(kInvalidInput) for a budget where the device
/// has no price.
AffordableRanks find_affordable_ranks(const JobConfig& job, const ClusterOfRanks& cluster_of,
                                      const AffordableRequest& request);

std::string to_text(const AffordableRanks& found);
std::string to_json(const AffordableRanks& found);

}  // namespace trireme
