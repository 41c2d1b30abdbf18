// Finds the number of ranks and the layout for a budget or a deadline: `trireme plan --search --budget`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/layouts_report.h"

namespace trireme {

struct AffordableRequest {
  std::optional<double> budget;          // finds the fastest within it
  std::optional<double> deadline_hours;  // finds the cheapest within it; without prices the fewest ranks
  int most_ranks = 1;
  int ranks_per_machine = 0;  // 0: the cluster's
  bool varies_micro_batch = false;
  TellProgress on_progress = {};
};

struct AffordableRow {
  int num_ranks = 1;
  double hours = 0, cost = 0;  // for train.steps; 0: no layout fits
  std::string layout;          // or the reason why there is none
};

struct AffordableRanks {
  std::vector<AffordableRow> rows;  // 1, 2, 4, ... ranks
  std::optional<std::size_t> chosen;
  std::optional<LayoutsReport> layouts;  // for the chosen number of ranks
  AffordableRequest request;
};

/// Searches the layouts for each number of ranks. Throws Error(kInvalidInput) for a budget if the device has
/// no price.
AffordableRanks find_affordable_ranks(const JobConfig& job, const ClusterOfRanks& cluster_of,
                                      const AffordableRequest& request);

std::string to_text(const AffordableRanks& found);
nlohmann::ordered_json to_json(const AffordableRanks& found);

}  // namespace trireme
