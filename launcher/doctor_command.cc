// trireme doctor [--json] [--no-measure]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "launcher/commands.h"
#include "launcher/doctor.h"

namespace trireme {
namespace {

struct DoctorArguments {
  bool json = false;
  bool no_measure = false;
};

ExitCode run_doctor(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  DoctorReport report = examine(launch);
  if (!arguments.no_measure) report.sgemm_gflops = measure_sgemm_gflops(report.cores.usable());
  if (launch.rank == 0) fmt::print("{}", arguments.json ? to_json(report) : to_text(report));
  return ExitCode::kDone;
}

}  // namespace

void add_doctor_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand("doctor", "Show what this machine and build can do");
  command->add_flag("--json", arguments->json, "As JSON");
  command->add_flag("--no-measure", arguments->no_measure, "Skip the measurement of matrix products");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_doctor(*arguments, launch); };
  });
}

}  // namespace trireme
