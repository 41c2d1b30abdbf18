// trireme plan JOB.toml [--set key=value]... [--ranks N] [--ranks-per-machine M] [--json]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launcher/build.h"
#include "launcher/commands.h"
#include "launcher/plan_report.h"

namespace trireme {
namespace {

struct PlanArguments {
  std::string job;
  std::vector<std::string> overrides;
  int num_ranks = 1;
  int ranks_per_machine = 0;
  bool json = false;
};

ExitCode run_plan(const PlanArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1,
                "`trireme plan` runs alone; say how many ranks to plan for with --ranks {}",
                launch.num_ranks);
  const JobConfig config = resolve(load_config(arguments.job, arguments.overrides));
  const PlanReport report = make_plan_report(config, arguments.num_ranks, arguments.ranks_per_machine);
  fmt::print("{}", arguments.json ? to_json(report) : to_text(report));
  return ExitCode::kDone;
}

}  // namespace

void add_plan_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Show the plan of a job's step and its memory, without running it");
  command->add_option("JOB", arguments->job, "The job, a TOML file")->required();
  command->add_option("--set", arguments->overrides, "section.key=value, over what the job says; repeatable")
      ->allow_extra_args(false);
  command->add_option("--ranks", arguments->num_ranks, "Ranks to plan for (default: 1)")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--ranks-per-machine", arguments->ranks_per_machine,
                   "Ranks that share the memory of a machine like this one (default: all of them)")
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--json", arguments->json, "As JSON");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_plan(*arguments, launch); };
  });
}

}  // namespace trireme
