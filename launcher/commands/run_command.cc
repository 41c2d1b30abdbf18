// trireme run JOB.toml [--ranks N|MIN:MAX] [--max-restarts N] [--max-disk-minutes M] [--hosts FILE]
//             [--spares K] [--set key=value]... [--out DIR] [-- mpirun options]
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/config/config.h"
#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "launcher/supervise/host_list.h"
#include "launcher/supervise/mpirun_options.h"
#include "launcher/supervise/supervisor.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

struct RunArguments {
  Supervisor::Options options;
  std::string ranks, out;
};

RankRange ranks_of(const RunArguments& arguments) {
  if (!arguments.ranks.empty()) return parse_ranks(arguments.ranks);
  if (arguments.options.hosts.empty()) return {.min = 1, .max = 1};
  std::vector<Host> hosts = read_hosts(arguments.options.hosts);
  hosts.resize(hosts.size() - std::min(hosts.size(), static_cast<std::size_t>(arguments.options.num_spares)));
  return {.min = 1, .max = std::max(1, num_slots(hosts))};
}

/// See [Note: localhost] in name_lookup.h.
void keep_mpirun_from_displays() {
  if (!environment_variable("HWLOC_COMPONENTS")) set_environment_variable("HWLOC_COMPONENTS", "-gl");
}

void add_mpirun_options(Supervisor::Options& options) {
  const std::vector<AddedOption> added =
      needed_mpirun_options(options.mpirun_options, {.is_root = ::geteuid() == 0,
                                                     .num_ranks = options.ranks.max,
                                                     .num_cores = count_physical_cores(),
                                                     .has_hosts = !options.hosts.empty()});
  for (const auto& [option, reason] : added) {
    log_info(fmt::format("mpirun is started with {}: {}", option, reason));
    options.mpirun_options.push_back(option);
  }
}

ExitCode run_supervised(const RunArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(!launch.under_mpi(), "`trireme run` starts mpirun itself: run it alone, with --ranks {}",
                launch.num_ranks);
  Supervisor::Options options = arguments.options;
  TRIREME_CHECK(options.num_spares == 0 || !options.hosts.empty(),
                "--spares {}: spares are hosts of a host file: add --hosts FILE", options.num_spares);
  options.launch = launch;
  options.ranks = ranks_of(arguments);
  options.config = resolve(load_config(options.job, options.overrides));
  if (options.config.checkpoint.every == 0)
    log_warning(
        "checkpoint.every = 0: a job that is started again begins anew; set it, so that less is lost");
  options.out = arguments.out.empty()
                    ? std::filesystem::path("runs") / std::filesystem::path(options.job).stem()
                    : std::filesystem::path(arguments.out);
  add_mpirun_options(options);
  keep_mpirun_from_displays();
  return Supervisor(std::move(options)).run();
}

}  // namespace

void add_run_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<RunArguments>();
  Supervisor::Options& options = arguments->options;
  CLI::App* command =
      app.add_subcommand("run", "Run a training job under mpirun, and restart it until it is done");
  command->add_option("JOB", options.job, "The job, a TOML file")->required();
  command->add_option("--ranks", arguments->ranks,
                      "Number of ranks, or MIN:MAX: the most that have slots and a valid plan (default: 1, "
                      "or the slots of --hosts)");
  command->add_option("--max-restarts", options.max_restarts, "Maximum number of restarts (default: 20)")
      ->check(CLI::Range(0, 1 << 20));
  command
      ->add_option("--max-disk-minutes", options.max_disk_minutes,
                   "Minutes to wait for a full or failing disk before a restart (default: 60)")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("--hosts", options.hosts,
                      "mpirun's host file; read again before each start, and while fewer than MAX ranks run");
  command
      ->add_option("--spares", options.num_spares,
                   "Number of hosts in reserve, which replace hosts that fail (default: 0)")
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--set", options.overrides, "Overrides a key of the job: section.key=value; repeatable")
      ->allow_extra_args(false);
  command->add_option("--out", arguments->out, "Output folder (default: runs/ and the job's name)");
  command->add_option("--mpirun", options.mpirun, "The program that starts ranks (default: mpirun)");
  command->add_option("OPTIONS", options.mpirun_options, "After --: options of mpirun");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_supervised(*arguments, launch); };
  });
}

}  // namespace trireme
