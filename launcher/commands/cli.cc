#include "launcher/commands/cli.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <new>
#include <sstream>
#include <string_view>
#include <vector>

#include "launcher/commands/argument_error.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/help_examples.h"
#include "launcher/commands/page_commands.h"
#include "launcher/config/nearest_name.h"
#include "launcher/host/address_space.h"
#include "launcher/host/build_info.h"
#include "launcher/host/env.h"
#include "launcher/host/error_report.h"
#include "launcher/host/exit_code.h"
#include "launcher/host/fatal_signals.h"
#include "launcher/host/standard_output.h"
#include "launcher/host/thread_stacks.h"
#include "runtime/base/lines_error.h"

namespace trireme {
namespace {

int as_int(ExitCode code) {
  return static_cast<int>(code);
}

/// Reports an unknown command; CLI11 would only report a missing one.
void check_command_name(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  TRIREME_CHECK(std::find(names.begin(), names.end(), argv[1]) != names.end(),
                "unknown command {}; did you mean {}? Commands are {}", argv[1], nearest_name(argv[1], names),
                fmt::join(names, ", "));
}

int parse_and_run(int argc, const char* const* argv, const LaunchEnvironment& launch) {
  CLI::App app("Trireme trains neural networks on many processes, with the same bits on every layout.",
               "trireme");
  app.set_version_flag("--version", std::string("trireme ") + build_info::kVersion);
  app.require_subcommand(1);
  Command chosen;
  add_init_command(app, chosen);
  add_train_command(app, chosen);
  add_plan_command(app, chosen);
  add_calibrate_command(app, chosen);
  add_predict_command(app, chosen);
  add_run_command(app, chosen);
  add_report_command(app, chosen);
  add_watch_command(app, chosen);
  add_top_command(app, chosen);
  add_eval_command(app, chosen);
  add_export_command(app, chosen);
  add_checkpoint_command(app, chosen);
  add_sample_command(app, chosen);
  add_detect_command(app, chosen);
  add_data_command(app, chosen);
  add_doctor_command(app, chosen);
  add_help_examples(app);
  check_command_name(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    std::ostringstream text;
    const int code = app.exit(request, text, text);
    print_text(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    report_error(LinesError(ErrorCode::kInvalidInput, {describe_argument_error(app, error),
                                                       "Run `trireme --help`, or a command with --help."}));
    return as_int(ExitCode::kBadInput);
  }
  const int code = as_int(chosen(launch));
  // Output may be a command's only result. The results of `train` are files.
  if (std::string_view(argv[1]) != "train") check_output_written();
  return code;
}

}  // namespace

void set_up_log(const LaunchEnvironment& launch) {
  auto logger =
      std::make_shared<spdlog::logger>("trireme", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(launch.num_ranks > 1 ? fmt::format("trireme: %l: rank {}: %v", launch.rank)
                                           : std::string("trireme: %l: %v"));
  logger->set_level(launch.rank == 0 ? spdlog::level::info : spdlog::level::err);
  spdlog::set_default_logger(std::move(logger));
}

int run_command_line(int argc, const char* const* argv) noexcept {
  int rank = -1;  // shown in messages only if there are several ranks
  const std::runtime_error out_of_memory("the host is out of memory");  // created while memory is available
  try {
    const LaunchEnvironment launch = read_launch_environment();
    if (launch.num_ranks > 1) rank = launch.rank;
    set_up_log(launch);
    refuse_huge_stacks();
    refuse_small_stacks(find_small_stacks(stack_limit()));
    refuse_small_address_space(address_space());
    report_fatal_signals();
    std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the size limit then fails with a write error
    return parse_and_run(argc, argv, launch);
  } catch (const std::exception& failure) {
    const Error error = as_error(failure);
    report_error(error, rank);
    return as_int(exit_code(error.code()));
  } catch (...) {
    report_error(std::runtime_error("unknown failure"), rank);
  }
  return as_int(ExitCode::kFailed);
}

}  // namespace trireme
