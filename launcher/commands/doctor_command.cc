// trireme doctor [--json] [--no-measure]
// trireme doctor --roofline JOB.toml [--set key=value]... [--json]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/host/device.h"
#include "launcher/host/doctor.h"
#include "launcher/report/roofline_report.h"
#include "launcher/train/agreement.h"
#include "launcher/train/build.h"
#include "launcher/train/rank_session.h"

namespace trireme {
namespace {

struct DoctorArguments {
  bool json = false;
  bool no_measure = false;
  std::optional<std::string> roofline;  // a job
  std::vector<std::string> overrides;
};

// Over the communicator that a job with device = "auto" would use.
AllReduceBandwidth try_all_reduce(const LaunchEnvironment& launch,
                                  const std::shared_ptr<Communicator>& comm) {
  try {
    return measure_all_reduce(choose_device(std::nullopt, launch, comm));
  } catch (const AgreedError& error) {  // such as more ranks than GPUs
    return {.problem = error.what()};
  }
}

ExitCode show_roofline(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(
      launch.num_ranks == 1,
      "`trireme doctor --roofline` counts for one card and runs alone; it was started with {} ranks",
      launch.num_ranks);
  const RooflineReport report =
      make_roofline_report(resolve(load_config(*arguments.roofline, arguments.overrides)));
  fmt::print("{}", arguments.json ? to_json(report) : to_text(report));
  return ExitCode::kDone;
}

ExitCode run_doctor(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  if (arguments.roofline) return show_roofline(arguments, launch);
  DoctorReport report = examine(launch);
  if (!arguments.no_measure) report.sgemm_gflops = measure_sgemm_gflops(report.cores.usable());
  const auto print = [&] {
    if (launch.rank == 0) fmt::print("{}", arguments.json ? to_json(report) : to_text(report));
    return ExitCode::kDone;
  };
  if (arguments.no_measure || launch.num_ranks == 1) return print();
  return run_as_rank(launch, {.run = [&](RankSession& session) {
                       const Watchdog::Scope scope = session.inside("the measuring of the all-reduce");
                       report.all_reduce = try_all_reduce(launch, session.comm());
                       return print();
                     }});
}

}  // namespace

void add_doctor_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand("doctor", "Show what this machine and build can do");
  command->add_flag("--json", arguments->json, "As JSON");
  command->add_flag("--no-measure", arguments->no_measure,
                    "Skip the measurements: matrix products, and the all-reduce of several ranks");
  auto* roofline =
      command->add_option("--roofline", arguments->roofline,
                          "Instead: the least time that an H100 and an H200 need for each call of a step of "
                          "this job, a TOML file");
  command->add_option("--set", arguments->overrides, "section.key=value, over what the job says; repeatable")
      ->allow_extra_args(false)
      ->needs(roofline);
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_doctor(*arguments, launch); };
  });
}

}  // namespace trireme
