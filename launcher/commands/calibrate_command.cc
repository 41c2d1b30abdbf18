// trireme calibrate RUNS.csv --cluster C.toml --out C2.toml [--folds K] [--seed S] [--skip-bad]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cluster/cluster_file.h"
#include "launcher/cluster/runs_file.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/output_file.h"
#include "launcher/host/standard_output.h"
#include "launcher/report/prediction_error.h"
#include "parallel/cluster/calibrate.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

struct CalibrateArguments {
  std::string runs, cluster, out;
  int folds = 10;
  std::uint64_t seed = 1;
  bool skip_bad = false;
};

std::vector<double> errors_of(const Cluster& cluster, const std::vector<MeasuredStep>& runs) {
  std::vector<double> errors;
  for (const MeasuredStep& run : runs) errors.push_back(run.error(cluster));
  return errors;
}

ExitCode run_calibrate(const CalibrateArguments& arguments) {
  check_can_be_written("--out", arguments.out);
  const Cluster cluster = read_cluster(arguments.cluster);
  const RunsFile file =
      read_runs(arguments.runs, cluster, arguments.skip_bad ? BadRows::kSkip : BadRows::kRefuse,
                MeasuredSteps::kNeeded);
  for (const std::string& reason : file.skipped) log_warning(reason + "; skipped");
  const std::vector<MeasuredStep> runs = file.measured();
  const Cluster fitted = calibrate(cluster, runs);
  const std::vector<double> unseen = cross_validate(cluster, runs, arguments.folds, arguments.seed);
  print_line(fmt::format("{} coefficients fitted to {} runs of {}", num_coefficients(cluster),
                         file.runs.size(), arguments.runs));
  print_line("As described:    " + error_summary(errors_of(cluster, runs)));
  print_line("Calibrated:      " + error_summary(errors_of(fitted, runs)));
  print_line(fmt::format("Cross-validated: {}, {} folds", error_summary(unseen), arguments.folds));
  print_text(error_tables(file.runs, unseen, file.lines));
  write_text_file(arguments.out,
                  fmt::format("# Calibrated with {} runs of {}; cross-validated error: {}.\n{}",
                              file.runs.size(), std::filesystem::path(arguments.runs).filename().string(),
                              error_summary(unseen), to_toml(fitted)));
  return ExitCode::kDone;
}

}  // namespace

void add_calibrate_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<CalibrateArguments>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Fit the description of a cluster to measured training steps");
  command->add_option("RUNS", arguments->runs, "Measured steps: a CSV file with one run per row")->required();
  command->add_option("--cluster", arguments->cluster, "Description of the cluster, a TOML file")->required();
  command->add_option("--out", arguments->out, "File for the calibrated cluster")->required();
  command->add_option("--folds", arguments->folds, "Number of folds of the cross-validation (default: 10)");
  command
      ->add_option("--seed", arguments->seed, "Seed of the shuffle before the cross-validation (default: 1)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--skip-bad", arguments->skip_bad, "Skip invalid rows, with a warning for each");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment&) { return run_calibrate(*arguments); };
  });
}

}  // namespace trireme
