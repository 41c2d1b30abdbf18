// trireme doctor [--json] [--no-measure]
// trireme doctor --engines JOB.toml [--set key=value]... [--json]
// trireme doctor --roofline JOB.toml [--set key=value]... [--json]
#include <fmt/core.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/host/device.h"
#include "launcher/host/doctor.h"
#include "launcher/host/machine.h"
#include "launcher/report/engines_report.h"
#include "launcher/report/roofline_report.h"
#include "launcher/train/agreement.h"
#include "launcher/train/build.h"
#include "launcher/train/rank_session.h"
#include "parallel/comm/local.h"

namespace trireme {
namespace {

struct DoctorArguments {
  bool json = false;
  bool no_measure = false;
  std::optional<std::string> engines, roofline;  // a job
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

/// The job of --engines and --roofline, for one rank.
JobConfig job_of(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  const bool engines = arguments.engines.has_value();
  TRIREME_CHECK(launch.num_ranks == 1,
                "`trireme doctor {}` is about one device and runs alone, not as {} ranks",
                engines ? "--engines" : "--roofline", launch.num_ranks);
  JobConfig config =
      resolve(load_config(engines ? *arguments.engines : *arguments.roofline, arguments.overrides));
  TRIREME_CHECK(config.parallel.pipeline == 1,
                "`trireme doctor {}` is about the calls of one rank with the whole model, but "
                "parallel.pipeline = {}: add --set parallel.pipeline=1",
                engines ? "--engines" : "--roofline", config.parallel.pipeline);
  return config;
}

ExitCode show_roofline(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  const RooflineReport report = make_roofline_report(job_of(arguments, launch));
  fmt::print("{}", arguments.json ? to_json(report) : to_text(report));
  return ExitCode::kDone;
}

/// Keeps what is logged, beside what becomes of it otherwise.
class LogNotes {
 public:
  LogNotes() : sink_(std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)) {
    sink_->set_pattern("%v");
    spdlog::default_logger()->sinks().push_back(sink_);
  }
  ~LogNotes() { std::erase(spdlog::default_logger()->sinks(), sink_); }
  LogNotes(const LogNotes&) = delete;
  LogNotes& operator=(const LogNotes&) = delete;

  std::vector<std::string> take() {
    std::istringstream lines(std::exchange(text_, {}).str());
    std::vector<std::string> notes;
    for (std::string line; std::getline(lines, line);) notes.push_back(line);
    return notes;
  }

 private:
  std::ostringstream text_;
  const spdlog::sink_ptr sink_;
};

/// As JSON a line a call, as soon as it was measured: who is cut off has left what is known.
ExitCode show_engines(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  const JobConfig config = job_of(arguments, launch);
  batch_layout(config, 1);
  const RankDevice chosen = choose_device(config.parallel.device, launch, LocalWorld(1).communicator(0));
  const int threads = config.parallel.threads > 0 ? static_cast<int>(config.parallel.threads)
                                                  : threads_per_rank(count_cores(), 1);
  LogNotes notes;
  std::vector<CallTime> times;
  measure_call_times(
      record_step(planned_job(config, build_blocks(config.model), 1)),
      {.device = chosen.device, .threads = threads, .take_notes = [&] { return notes.take(); }},
      [&](const CallTime& time) {
        times.push_back(time);
        if (!arguments.json) return;
        fmt::print("{}", to_json(time));
        (void)std::fflush(stdout);
      });
  if (!arguments.json) fmt::print("{}", to_text(times));
  const bool failed = std::ranges::any_of(times, [](const CallTime& time) { return time.us == 0; });
  return failed ? ExitCode::kFailed : ExitCode::kDone;
}

ExitCode run_doctor(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(arguments.overrides.empty() || arguments.engines || arguments.roofline,
                "--set changes a job: it needs --engines or --roofline");
  if (arguments.engines) return show_engines(arguments, launch);
  if (arguments.roofline) return show_roofline(arguments, launch);
  DoctorReport report = examine(launch);
  if (!arguments.no_measure) report.sgemm_gflops = measure_sgemm_gflops(report.cores.usable());
  if (!arguments.no_measure && report.gpus && !report.gpus->devices.empty() && launch.local_rank == 0) {
    report.gpu_rates = measure_device_rates({DeviceType::kCuda, 0}, 1, {});
  }
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
                    "Skip the measurements: matrix products and copies, and the all-reduce of several ranks");
  auto* engines = command->add_option("--engines", arguments->engines,
                                      "Instead: times each call of a step of this job by itself, on its "
                                      "device: first call, later ones, workspace");
  command
      ->add_option("--roofline", arguments->roofline,
                   "Instead: the least time that an H100 and an H200 need for each call of a step of "
                   "this job, a TOML file")
      ->excludes(engines);
  command->add_option("--set", arguments->overrides, "section.key=value, over what the job says; repeatable")
      ->allow_extra_args(false);
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_doctor(*arguments, launch); };
  });
}

}  // namespace trireme
