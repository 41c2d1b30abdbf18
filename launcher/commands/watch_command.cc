// trireme watch RUN|DIR... [--listen 127.0.0.1:8080]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "launcher/commands/page_commands.h"
#include "launcher/host/standard_output.h"
#include "launcher/observe/http_server.h"
#include "launcher/page/watch.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

struct WatchArguments {
  std::vector<std::string> runs;
  std::string listen = "127.0.0.1:8080";
};

ExitCode watch_runs(const WatchArguments& arguments) {
  // Block the signals before the server's thread starts, so that it does not receive them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a client that disconnects is no failure
  Watch watch(arguments.runs);
  const std::size_t num_runs = watch.num_runs();
  const HttpServer server(watch.served_at(arguments.listen));
  if (!server.is_loopback())
    log_warning(fmt::format(
        "{} is open to other machines: whoever reaches it reads these runs' metrics and configuration",
        arguments.listen));
  print_line(fmt::format("{} run(s), and those to come, at {} until Ctrl-C", num_runs, server.url()));
  flush_output();
  int signal = 0;
  sigwait(&signals, &signal);
  return ExitCode::kDone;
}

}  // namespace

void add_watch_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<WatchArguments>();
  CLI::App* command = app.add_subcommand("watch", "Serve a live page of one run, or a comparison of several");
  command->add_option("RUN", arguments->runs, "Output folders of runs, or folders of such folders")
      ->required();
  command
      ->add_option("--listen", arguments->listen,
                   "Address and port; other machines can connect only if the address permits it")
      ->capture_default_str();
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment&) { return watch_runs(*arguments); };
  });
}

}  // namespace trireme
