// trireme calibrate RUNS.csv --cluster C.toml --out C2.toml [--folds K] [--seed S] [--skip-bad]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cluster/cluster_file.h"
#include "launcher/cluster/runs_file.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/number_range.h"
#include "launcher/commands/output_file.h"
#include "launcher/host/standard_output.h"
#include "launcher/report/prediction_error.h"
#include "launcher/report/progress_lines.h"
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

/// Reports the number of predicted steps, which take nearly all of the time. The cross-validation of k folds
/// predicts about k - 1 times as many steps as the fit to all runs.
class FitProgress {
 public:
  explicit FitProgress(int num_folds) : num_folds_(num_folds) {}
  FitProgress(const FitProgress&) = delete;
  FitProgress& operator=(const FitProgress&) = delete;

  std::vector<MeasuredStep> observed(std::vector<MeasuredStep> runs) {
    for (MeasuredStep& run : runs) {
      run.predicted_ms = [this, predict = run.predicted_ms](const Cluster& cluster) {
        count();
        return predict(cluster);
      };
    }
    return runs;
  }
  void cross_validate() { of_one_fit_ = std::max<std::int64_t>(num_predicted_, 1); }

 private:
  void count() {
    ++num_predicted_;
    if (of_one_fit_ == 0) return lines_(fmt::format("fitting: {} steps predicted", num_predicted_));
    const auto all = static_cast<double>(of_one_fit_ * num_folds_);
    shares_("fitting and cross-validating", std::min(static_cast<double>(num_predicted_) / all, 0.99));
  }

  const int num_folds_;
  const TellProgress lines_ = progress_lines();
  const TellShare shares_ = share_lines();
  std::int64_t num_predicted_ = 0;
  std::int64_t of_one_fit_ = 0;  // 0: the first fit is under way
};

ExitCode run_calibrate(const CalibrateArguments& arguments) {
  check_can_be_written("--out", arguments.out);
  const Cluster cluster = read_cluster(arguments.cluster);
  const RunsFile file =
      read_runs(arguments.runs, cluster, arguments.skip_bad ? BadRows::kSkip : BadRows::kRefuse,
                MeasuredSteps::kNeeded);
  for (const std::string& reason : file.skipped) log_warning(reason + "; skipped");
  check_folds(arguments.folds, std::ssize(file.measured()));  // before the fit, which takes minutes
  FitProgress progress(arguments.folds);
  const std::vector<MeasuredStep> runs = progress.observed(file.measured());
  const Cluster fitted = calibrate(cluster, runs);
  progress.cross_validate();
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
      ->check(not_negative());
  command->add_flag("--skip-bad", arguments->skip_bad, "Skip invalid rows, with a warning for each");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment&) { return run_calibrate(*arguments); };
  });
}

}  // namespace trireme
