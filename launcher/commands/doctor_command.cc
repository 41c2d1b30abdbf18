// trireme doctor [--json] [--no-measure]
// trireme doctor --measure OUT.toml
// trireme doctor --arithmetic auto|cpu|cuda
// trireme doctor --engines JOB.toml [--set key=value]... [--json]
// trireme doctor --roofline JOB.toml [--set key=value]... [--json]
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cluster/cluster_file.h"
#include "launcher/cluster/measure_cluster.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/output_file.h"
#include "launcher/host/agreement.h"
#include "launcher/host/device.h"
#include "launcher/host/doctor.h"
#include "launcher/host/host_facts.h"
#include "launcher/host/machine.h"
#include "launcher/host/standard_output.h"
#include "launcher/host/waiting_share.h"
#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "launcher/render/json_text.h"
#include "launcher/report/engines_report.h"
#include "launcher/report/progress_lines.h"
#include "launcher/report/roofline_report.h"
#include "launcher/train/rank_session.h"
#include "parallel/comm/local.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

struct DoctorArguments {
  bool json = false;
  bool no_measure = false;
  std::optional<std::string> engines, roofline;  // a job
  std::optional<std::string> measure;            // the cluster file to write
  std::optional<std::string> arithmetic;         // the device
  std::vector<std::string> overrides;
};

void print_report(const auto& report, bool json) {
  print_text(json ? json_text(to_json(report), 1) + "\n" : to_text(report));
}

// Uses the communicator that a job with device = "auto" would use.
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
  TRIREME_CHECK(config.parallel.layout.pipeline == 1,
                "`trireme doctor {}` is about the calls of one rank with the whole model, but "
                "parallel.pipeline = {}: add --set parallel.pipeline=1",
                engines ? "--engines" : "--roofline", config.parallel.layout.pipeline);
  return config;
}

ExitCode show_roofline(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  const RooflineReport report = make_roofline_report(job_of(arguments, launch));
  print_report(report, arguments.json);
  return ExitCode::kDone;
}

/// Collects log messages, which are still logged as usual.
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

/// With JSON, prints a line for each call as soon as it is measured, so that an interrupted run keeps its
/// results.
ExitCode show_engines(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  const JobConfig config = job_of(arguments, launch);
  batch_layout(config, 1);
  const RankDevice chosen = choose_device(config.parallel.device, launch, LocalWorld(1).communicator(0));
  const int threads = config.parallel.threads > 0 ? static_cast<int>(config.parallel.threads)
                                                  : threads_per_rank(count_cores(), 1);
  LogNotes notes;
  std::vector<CallTime> times;
  measure_call_times(record_step(planned_job(config, build_blocks(config.model), 1)),
                     {.device = chosen.device,
                      .threads = threads,
                      .unfused = arguments.json,
                      .take_notes = [&] { return notes.take(); },
                      .measure_products = config.parallel.tune_products},
                     [&](const CallTime& time) {
                       times.push_back(time);
                       if (!arguments.json) return;
                       print_line(json_text(to_json(time)));
                       flush_output();
                     });
  if (!arguments.json) print_text(to_text(times));
  const bool failed = std::ranges::any_of(times, [](const CallTime& time) { return time.us == 0; });
  return failed ? ExitCode::kFailed : ExitCode::kDone;
}

ExitCode write_measured(const std::string& file, const Cluster& cluster) {
  write_text_file(file, fmt::format("# Measured by `trireme doctor --measure`.\n{}", to_toml(cluster)));
  std::vector<std::string> names;
  for (const ClusterDevice& device : cluster.devices) names.push_back(device.name);
  print_line(fmt::format("{}: this machine as {}", file, fmt::join(names, ", ")));
  return ExitCode::kDone;
}

/// Before the measurement: checks that the file can be written, and that an existing file is a cluster
/// description.
void check_output(const std::string& file) {
  check_can_be_written("--measure", file);
  if (std::filesystem::exists(file)) read_cluster(file);
}

/// The memory of the rank's GPU, or its share of the host's.
std::int64_t memory_of_rank(Device device, int ranks_here) {
  if (traits(device.type).host_memory) return total_memory_bytes() / ranks_here;
  const DeviceReport report = backend_for(device.type).examine_devices();
  return report.devices.at(static_cast<std::size_t>(device.index)).memory_bytes;
}

/// Writes the measurements of rank 0; the other ranks run the same work at the same time.
ExitCode write_cluster(const std::string& file, const LaunchEnvironment& launch, const RankDevice& rank) {
  run_stage(*rank.comm, [&] {
    if (launch.rank == 0) check_output(file);
  });
  const int ranks_here = std::max(launch.num_local_ranks, 1);
  MeasuredRank measured{.device = rank.device,
                        .threads = threads_per_rank(count_cores(), ranks_here),
                        .num_ranks = ranks_here,
                        .memory_bytes = memory_of_rank(rank.device, ranks_here)};
  if (rank.comm->size() > 1) measured.link = measure_link(rank);
  const bool adds = std::filesystem::exists(file);
  if (traits(rank.device.type).host_memory) measured.cores = count_cores().usable();
  if (measured.cores > 0 && ranks_here * measured.threads > measured.cores) {
    measured.waiting_share =
        measure_waiting_share(*rank.comm, {.threads = measured.threads, .cores = measured.cores});
    if (launch.rank != 0) return ExitCode::kDone;
    TRIREME_CHECK(adds, "{} ranks of {} thread(s) share {} cores: measure fewer into {} first", ranks_here,
                  measured.threads, measured.cores, file);
    return write_measured(file, with_shared_cores(read_cluster(file), measured));
  }
  if (launch.rank == 0) log_info("measuring this machine: one to several minutes");
  const TellShare progress = launch.rank == 0 ? share_lines() : TellShare([](const std::string&, double) {});
  const Cluster now = measure_cluster(measured, [&](const std::string& what, double done) {
    progress(what, done);
    rank.comm->barrier();
  });
  if (launch.rank != 0) return ExitCode::kDone;
  return write_measured(file, adds ? merged(read_cluster(file), now) : now);
}

ExitCode measure(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == std::max(launch.num_local_ranks, 1),
                "`trireme doctor --measure` describes one machine, but its {} ranks are on several",
                launch.num_ranks);
  if (launch.num_ranks == 1) {
    return write_cluster(*arguments.measure, launch,
                         choose_device(std::nullopt, launch, LocalWorld(1).communicator(0)));
  }
  return run_as_rank(launch, {.run = [&](RankSession& session) {
                       const Watchdog::Scope scope = session.inside("the measuring of this machine");
                       return write_cluster(*arguments.measure, launch,
                                            choose_device(std::nullopt, launch, session.comm()));
                     }});
}

ExitCode show_arithmetic(const std::string& device) {
  std::optional<DeviceType> wanted;
  if (device != "auto") wanted = device == "cpu" ? DeviceType::kCpu : DeviceType::kCuda;
  print_line(to_json(facts_of_this_host(wanted)));
  return ExitCode::kDone;
}

ExitCode run_doctor(const DoctorArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(arguments.overrides.empty() || arguments.engines || arguments.roofline,
                "--set changes a job: it needs --engines or --roofline");
  if (arguments.arithmetic) return show_arithmetic(*arguments.arithmetic);
  if (arguments.measure) return measure(arguments, launch);
  if (arguments.engines) return show_engines(arguments, launch);
  if (arguments.roofline) return show_roofline(arguments, launch);
  DoctorReport report = examine(launch);
  if (!arguments.no_measure) report.sgemm_gflops = measure_sgemm_gflops(report.cores.usable());
  if (!arguments.no_measure && report.gpus && !report.gpus->devices.empty() && launch.local_rank == 0) {
    report.gpu_rates = measure_device_rates({DeviceType::kCuda, 0}, 1, {});
  }
  const auto print = [&] {
    if (launch.rank == 0) print_report(report, arguments.json);
    return ExitCode::kDone;
  };
  if (arguments.no_measure || launch.num_ranks == 1) return print();
  return run_as_rank(launch, {.run = [&](RankSession& session) {
                       const Watchdog::Scope scope = session.inside("the examination of the fabric");
                       report.fabric = examine_fabric(*session.comm());
                       report.all_reduce = try_all_reduce(launch, session.comm());
                       return print();
                     }});
}

}  // namespace

void add_doctor_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand("doctor", "Show the capabilities of this machine and build");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_flag(
      "--no-measure", arguments->no_measure,
      "Skip the measurements of matrix products, copies and, with several ranks, fabric and all-reduce");
  auto* engines = command->add_option("--engines", arguments->engines,
                                      "Only time each call of a step of this job separately on its device: "
                                      "first call, later calls, workspace; with --json also products without "
                                      "their epilogues");
  command
      ->add_option(
          "--roofline", arguments->roofline,
          "Only print the least time of each call of a step of this job (a TOML file) on an H100 and an H200")
      ->excludes(engines);
  command
      ->add_option(
          "--measure", arguments->measure,
          "Only time the calls of small models and, under mpirun, the exchanges of the ranks, and write this "
          "machine as a cluster for `trireme plan --cluster`; an existing file is extended")
      ->excludes(engines);
  command
      ->add_option("--arithmetic", arguments->arithmetic,
                   "Only print, as a line of JSON, the facts that determine the last bits of a job on this "
                   "host; `trireme run` runs this on each host. auto, cpu or cuda, as parallel.device")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->excludes(engines);
  command
      ->add_option("--set", arguments->overrides, "Overrides a key of the job: section.key=value; repeatable")
      ->allow_extra_args(false);
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_doctor(*arguments, launch); };
  });
}

}  // namespace trireme
