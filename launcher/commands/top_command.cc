// trireme top RUN [--every SECONDS] [--once]
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/commands/number_range.h"
#include "launcher/commands/page_commands.h"
#include "launcher/host/standard_output.h"
#include "launcher/page/run_files.h"
#include "launcher/page/run_reader.h"
#include "launcher/page/run_state.h"
#include "launcher/page/top_text.h"

namespace trireme {
namespace {

struct TopArguments {
  std::string run;
  double every_s = 1;
  bool once = false;
};

/// Returns false if SIGINT or SIGTERM arrived meanwhile.
bool wait_for(double seconds, const sigset_t& signals) {
  constexpr double kNsPerSecond = 1e9;
  const auto whole = static_cast<std::time_t>(seconds);
  const timespec time{.tv_sec = whole,
                      .tv_nsec = static_cast<long>((seconds - static_cast<double>(whole)) * kNsPerSecond)};
  return sigtimedwait(&signals, nullptr, &time) < 0;
}

ExitCode show_run(const TopArguments& arguments) {
  const auto folder = find_run(arguments.run);
  const std::string name = display_names({folder}).front();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  RunReader reader(folder);
  std::string shown;
  for (;;) {
    reader.poll();
    if (reader.has_more()) {
      if (!wait_for(0, signals)) return ExitCode::kDone;
      continue;
    }
    const auto state = run_state(reader);
    const std::string status = state["status"];
    const std::string mark = fmt::format("{} {}", status, state["step"].get<std::int64_t>());
    // On a terminal the screen is redrawn; otherwise lines are printed only when something changed.
    if (terminal || mark != shown) {
      if (terminal) clear_screen();
      print_text(top_text(name, state, std::time(nullptr)) + (terminal ? "" : "\n"));
      if (!flush_output()) return ExitCode::kDone;  // the reader closed the pipe; cli.cc reports it
    }
    shown = mark;
    const bool ended = status != "running" && status != "waiting";
    if (arguments.once || ended || !wait_for(arguments.every_s, signals)) return ExitCode::kDone;
  }
}

}  // namespace

void add_top_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* command =
      app.add_subcommand("top", "Show metrics and ranks of a run in the terminal until it ends, or Ctrl-C");
  command->add_option("RUN", arguments->run, "Output folder of a run")->required();
  constexpr double kLeastSeconds = 0.1, kMostSeconds = 3600;
  command->add_option("--every", arguments->every_s, "Seconds between updates")
      ->check(finite_range(kLeastSeconds, kMostSeconds))
      ->capture_default_str();
  command->add_flag("--once", arguments->once, "Print once and exit");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment&) { return show_run(*arguments); };
  });
}

}  // namespace trireme
