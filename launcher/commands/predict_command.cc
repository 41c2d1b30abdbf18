// trireme predict RUNS.csv --cluster C.toml --out PREDICTED.csv [--skip-bad] [--details]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cluster/cluster_file.h"
#include "launcher/cluster/runs_file.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/output_file.h"
#include "launcher/host/standard_output.h"
#include "launcher/report/prediction_error.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

struct PredictArguments {
  std::string runs, cluster, out;
  bool skip_bad = false, details = false;
};

ExitCode run_predict(const PredictArguments& arguments) {
  check_can_be_written("--out", arguments.out);
  const Cluster cluster = read_cluster(arguments.cluster);
  const RunsFile file =
      read_runs(arguments.runs, cluster, arguments.skip_bad ? BadRows::kSkip : BadRows::kRefuse);
  for (const std::string& reason : file.skipped) log_warning(reason + "; skipped");
  std::vector<double> predicted_ms, errors;
  std::vector<TrainingRun> measured;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < file.runs.size(); ++i) {
    const TrainingRun& run = file.runs[i];
    predicted_ms.push_back(file.prices[i].step_ms(cluster));
    if (!run.step_ms) continue;
    errors.push_back(predicted_ms.back() / *run.step_ms - 1);
    measured.push_back(run);
    lines.push_back(file.lines[i]);
  }
  write_text_file(arguments.out, to_csv(file, predicted_ms));
  print_line(fmt::format("{} runs predicted; of measured ones, absolute error: {}", file.runs.size(),
                         error_summary(errors)));
  if (arguments.details) print_text(error_tables(measured, errors, lines));
  return ExitCode::kDone;
}

}  // namespace

void add_predict_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command =
      app.add_subcommand("predict", "Predict step times of runs on a cluster, without running them");
  command->add_option("RUNS", arguments->runs, "Runs: a CSV file with one run per row")->required();
  command->add_option("--cluster", arguments->cluster, "Description of the cluster, a TOML file")->required();
  command->add_option("--out", arguments->out, "File for the rows with predicted_ms")->required();
  command->add_flag("--skip-bad", arguments->skip_bad, "Skip invalid rows, with a warning for each");
  command->add_flag("--details", arguments->details,
                    "Also print errors by model, size and layout, and the worst runs");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment&) { return run_predict(*arguments); };
  });
}

}  // namespace trireme
