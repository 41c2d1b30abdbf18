// The parts of `trireme plan` that compare many runs of a job: --search, --scale, --cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "launcher/config/config.h"
#include "launcher/host/exit_code.h"
#include "launcher/report/plan_time.h"

namespace trireme {

struct ForecastArguments {
  bool search = false, vary_micro_batch = false, cost = false;
  bool force = false;  // replace existing files
  std::optional<std::string> write, scale, plot, grow, autoscale;
  std::optional<double> budget, deadline_hours, tokens, samples, save_s;
  std::uint64_t seed = 1;

  bool wanted() const { return search || scale || cost; }
};

/// Returns the option --scale, which also sets the numbers of ranks.
CLI::Option* add_forecast_options(CLI::App& command, ForecastArguments& arguments);

/// Checks that need no job: files and incompatible options.
void check_forecast(const ForecastArguments& arguments);

struct ForecastPlace {
  int num_ranks = 1;
  int ranks_per_machine = 0;  // 0: the cluster's
  bool json = false;
};

ExitCode run_forecast(const ForecastArguments& arguments, const JobConfig& job,
                      const ClusterOfRanks& cluster_of, const ForecastPlace& place);

}  // namespace trireme
