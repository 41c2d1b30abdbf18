// trireme report RUN... --out FILE.html
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/commands/output_file.h"
#include "launcher/commands/page_commands.h"
#include "launcher/host/standard_output.h"
#include "launcher/page/page_html.h"
#include "launcher/page/run_files.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out;
  bool force = false;
};

ExitCode write_report(const ReportArguments& arguments) {
  TRIREME_CHECK(arguments.out.ends_with(".html"), "--out {}: a report is an HTML file; name it FILE.html",
                arguments.out);
  check_is_new("--out", arguments.out, arguments.force);
  const auto runs = find_runs(arguments.runs);
  write_text_file(arguments.out, report_page(report_data(runs)));
  print_line(
      fmt::format("{}: {} run(s); open it in a browser, it needs no network", arguments.out, runs.size()));
  return ExitCode::kDone;
}

}  // namespace

void add_report_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command =
      app.add_subcommand("report", "Write curves, events and configuration of runs to one HTML file");
  command->add_option("RUN", arguments->runs, "Output folders of runs, or folders of such folders")
      ->required();
  command->add_option("--out", arguments->out, "The HTML file to write")->required();
  command->add_flag("--force", arguments->force, "Replace an existing file");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment&) { return write_report(*arguments); };
  });
}

}  // namespace trireme
