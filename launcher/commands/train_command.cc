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
#include "launcher/host/machine.h"
#include "launcher/host/standard_output.h"
#include "launcher/job/build.h"
#include "launcher/keys/config_keys.h"
#include "launcher/keys/job_file.h"
#include "launcher/train/rank_session.h"
#include "launcher/train/settled_run.h"
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

ExitCode train(const JobConfig& config, const TrainArguments& arguments, const LaunchEnvironment& launch,
               const RankSession& session, RecordWriter& records, const StopRequest& stop) {
  RunOptions options = settle_run(config, {.out = output_root(arguments),
                                           .launch = launch,
                                           .comm = session.comm(),
                                           .watchdog = session.watchdog()});
  options.records = &records;
  return Trainer(start_run(std::move(options)), stop).run();
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
