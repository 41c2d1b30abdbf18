// trireme train JOB.toml [--set key=value]... [--out DIR]
#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/config/config.h"
#include "launcher/host/agreement.h"
#include "launcher/host/arithmetic.h"
#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/host/standard_output.h"
#include "launcher/job/accumulation.h"
#include "launcher/job/build.h"
#include "launcher/job/chosen_cut.h"
#include "launcher/job/memory_fit.h"
#include "launcher/keys/config_difference.h"
#include "launcher/keys/config_keys.h"
#include "launcher/keys/job_file.h"
#include "launcher/report/chosen_layout.h"
#include "launcher/train/rank_session.h"
#include "launcher/train/stop_request.h"
#include "launcher/train/trainer.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

struct TrainArguments {
  std::string job;
  std::vector<std::string> overrides;
  std::string out;
  std::string attempt;  // tag of an attempt of `trireme run`; empty: not supervised
  bool help_keys = false;
};

std::filesystem::path output_root(const TrainArguments& arguments) {
  if (!arguments.out.empty()) return arguments.out;
  return std::filesystem::path("runs") / std::filesystem::path(arguments.job).stem();
}

ExitCode train(JobConfig config, const TrainArguments& arguments, const LaunchEnvironment& launch,
               const RankSession& session, RecordWriter& records, const StopRequest& stop) {
  const auto& comm = session.comm();
  check_same_config(*comm, to_toml(config));
  std::shared_ptr<const BlockList> blocks;
  run_stage(*comm, [&] {
    check_threads(config.parallel);
    blocks = build_blocks(config.model);
  });
  const bool may_have_stages_on_gpus =
      (config.parallel.layout.pipeline > 1 || config.parallel.is_searched()) &&
      config.parallel.device != DeviceType::kCpu;
  if (may_have_stages_on_gpus) run_stage(*comm, [] { prepare_environment_for_stages(); });
  const RankDevice rank = [&] {
    const Watchdog::Scope scope = session.inside("the choice of a device");
    return choose_device(config.parallel.device, launch, comm, config.parallel.timeout_s.seconds);
  }();
  config.parallel.hosts = comm->hosts();
  const BitFacts arithmetic = arithmetic_of(rank.device);
  check_same_arithmetic(*comm, arithmetic);
  const int threads = config.parallel.threads > 0 ? static_cast<int>(config.parallel.threads)
                                                  : threads_per_rank(count_cores(), launch.num_local_ranks);
  const MemoryLimit limit = memory_limit(config, rank.device, launch.num_local_ranks);
  config = with_chosen_layout(config, comm,
                              {.num_ranks = comm->size(),
                               .hosts = config.parallel.hosts,
                               .device = rank.device,
                               .threads = threads,
                               .limit_bytes = limit.bytes});
  const CutMeasurement measurement{
      .device = rank.device, .threads = threads, .file = output_root(arguments) / "block_times.json"};
  config.parallel.pipeline_cut = chosen_cut(counted_on(config, rank.device.type), comm,
                                            {.measurement = measurement, .limit_bytes = limit.bytes});
  const ParallelSection settled =
      with_accumulation(counted_on(config, rank.device.type), blocks, comm, limit).parallel;
  config.parallel.layout = settled.layout;
  config.parallel.open = settled.open;
  return Trainer(start_run({.config = config,
                            .blocks = blocks,
                            .out = output_root(arguments),
                            .launch = launch,
                            .comm = rank.comm,
                            .device = rank.device,
                            .arithmetic = arithmetic,
                            .watchdog = session.watchdog(),
                            .host = comm,
                            .records = &records}),
                 stop)
      .run();
}

ExitCode run_train(const TrainArguments& arguments, const LaunchEnvironment& launch) {
  if (arguments.help_keys) {
    print_text(config_reference());
    return ExitCode::kDone;
  }
  TRIREME_CHECK(!arguments.job.empty(), "no job file was given: `trireme train JOB.toml`");
  const StopRequest stop;
  RecordWriter records({.out = output_root(arguments),
                        .attempt = arguments.attempt,
                        .rank = launch.rank,
                        .host = host_name()});
  JobConfig config;
  std::exception_ptr problem;  // rethrown in run_stage(), so that all ranks throw
  return run_as_rank(
      launch,
      {.read_limit =
           [&] {
             try {
               config = resolve(load_config(arguments.job, arguments.overrides));
             } catch (...) {
               problem = std::current_exception();
             }
             return config.parallel.timeout_s.seconds;
           },
       .run =
           [&](RankSession& session) {
             run_stage(*session.comm(), [&] {
               if (problem) std::rethrow_exception(problem);
               for (const std::string& warning : {check_schedule(config), doubt_about_adapters(config)}) {
                 if (!warning.empty()) log_warning(warning);
               }
             });
             return train(config, arguments, launch, session, records, stop);
           },
       .records = &records});
}

}  // namespace

void add_train_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Run a training job, alone or under mpirun");
  command->add_option("JOB", arguments->job, "The job, a TOML file");
  command
      ->add_option("--set", arguments->overrides, "Overrides a key of the job: section.key=value; repeatable")
      ->allow_extra_args(false);
  command->add_option("--out", arguments->out, "Output folder (default: runs/ and the job's name)");
  // Set by `trireme run`, which reads the records of its attempts.
  command->add_option("--attempt", arguments->attempt)->group("");
  command->add_flag("--help-keys", arguments->help_keys, "Print all keys of a job");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_train(*arguments, launch); };
  });
}

}  // namespace trireme
