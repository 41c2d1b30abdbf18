// trireme plan JOB.toml [--set key=value]... [--ranks N] [--ranks-per-machine M]
//              [--card FILE] [--json | --memory --actions --rank R] [--timeline FILE [--times FILE]
//              [--send-ms X]] [--cluster C.toml [--device NAME]] [--search | --scale A..B | --cost ...]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/cluster_file.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/number_range.h"
#include "launcher/commands/output_file.h"
#include "launcher/commands/plan_forecast.h"
#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/host/standard_output.h"
#include "launcher/job/build.h"
#include "launcher/job/chosen_cut.h"
#include "launcher/job/memory_fit.h"
#include "launcher/keys/job_file.h"
#include "launcher/records/output_folder.h"
#include "launcher/render/json_text.h"
#include "launcher/report/chosen_layout.h"
#include "launcher/report/plan_details.h"
#include "launcher/report/plan_report.h"
#include "launcher/report/plan_timeline.h"
#include "parallel/comm/local.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

struct PlanArguments {
  std::string job;
  std::vector<std::string> overrides;
  int num_ranks = 1;
  int ranks_per_machine = 0;
  bool json = false, memory = false, actions = false;
  std::optional<int> rank;
  std::optional<std::string> timeline, times, card, cluster;
  std::string device;  // in the cluster
  ForecastArguments forecast;
  double send_ms = 0.0;
};

void check_file_name(const char* option, const std::optional<std::string>& file) {
  TRIREME_CHECK(!file || !file->empty(), "{} needs the name of a file, not \"\"", option);
  TRIREME_CHECK(!file || !std::filesystem::is_directory(*file), "{} {}: is a folder; it takes a file", option,
                *file);
  if (!file) return;
  const std::filesystem::path folder = std::filesystem::path(*file).parent_path();
  TRIREME_CHECK(folder.empty() || std::filesystem::is_directory(folder),
                "{} {}: there is no folder {}; make it first", option, *file, folder.string());
}

/// True if two paths name one file, which may not exist yet.
bool names_one_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  return fs::weakly_canonical(fs::absolute(a)) == fs::weakly_canonical(fs::absolute(b));
}

/// Checks that need no job.
void check_arguments(const PlanArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1,
                "`trireme plan` runs alone; say how many ranks to plan for with --ranks {}",
                launch.num_ranks);
  TRIREME_CHECK(!arguments.rank || *arguments.rank < arguments.num_ranks,
                "--rank {} is none of the {} rank(s) of the plan, which count from 0", *arguments.rank,
                arguments.num_ranks);
  check_file_name("--timeline", arguments.timeline);
  check_file_name("--times", arguments.times);
  check_file_name("--write", arguments.forecast.write);
  check_file_name("--plot", arguments.forecast.plot);
  check_forecast(arguments.forecast);
  TRIREME_CHECK(!arguments.forecast.wanted() || (!arguments.timeline && !arguments.times &&
                                                 !arguments.memory && !arguments.actions && !arguments.rank),
                "--search, --scale and --cost show many layouts: --timeline, --times, --memory, --actions "
                "and --rank are for one");
  TRIREME_CHECK(!arguments.cluster || !arguments.card,
                "--cluster and --card both say what device the ranks have: give one");
  if (arguments.timeline) check_timeline_name(*arguments.timeline);
  TRIREME_CHECK(
      !arguments.timeline || !arguments.times || !names_one_file(*arguments.timeline, *arguments.times),
      "--timeline {} and --times {} name one file, which would hold the times alone: name two",
      *arguments.timeline, *arguments.times);
  if (arguments.timeline) check_is_new("--timeline", *arguments.timeline, arguments.forecast.force);
}

/// The device that a rank of the job would use on this machine.
Device device_here(const JobConfig& config, const LaunchEnvironment& launch) {
  return choose_device(config.parallel.device, launch, LocalWorld(1).communicator(0)).device;
}

DeviceType device_of_plan(const JobConfig& config, const LaunchEnvironment& launch) {
  return config.parallel.device ? *config.parallel.device : device_here(config, launch).type;
}

int ranks_here(const PlanArguments& arguments, int num_ranks) {
  return arguments.ranks_per_machine > 0 ? std::min(arguments.ranks_per_machine, num_ranks) : num_ranks;
}

/// Threads of a rank of the job on a machine like this one.
int threads_of_rank(const PlanArguments& arguments, const JobConfig& config, int num_ranks) {
  if (config.parallel.threads > 0) return static_cast<int>(config.parallel.threads);
  return threads_per_rank(count_cores(), ranks_here(arguments, num_ranks));
}

/// The cluster's ranks per node, unless the user sets it.
int ranks_of_machine(const PlanArguments& arguments, const ClusterChoice* cluster) {
  if (arguments.ranks_per_machine > 0 || cluster == nullptr) return arguments.ranks_per_machine;
  return std::min(arguments.num_ranks, cluster->cluster.ranks_per_node);
}

/// `num_ranks` ranks on machines like this one.
LayoutRanks ranks_of_plan(const PlanArguments& arguments, const JobConfig& config,
                          const LaunchEnvironment& launch, int num_ranks) {
  const int machine = ranks_here(arguments, num_ranks);
  return {.num_ranks = num_ranks,
          .hosts = hosts_of(num_ranks, machine),
          .device = device_here(config, launch),
          .threads = threads_of_rank(arguments, config, num_ranks),
          .limit_bytes = planned_limit(config, num_ranks, machine).bytes};
}

/// True if a file describes the ranks' machines.
bool is_described(const PlanArguments& arguments, const JobConfig& config) {
  return arguments.cluster || !config.parallel.cluster.empty();
}

/// The cluster description: --cluster. For parallel.layout = "auto": parallel.cluster, or a rough description
/// of this machine. Else null.
ClusterOfRanks cluster_of_ranks(const PlanArguments& arguments, const JobConfig& config,
                                const LaunchEnvironment& launch) {
  const ParallelSection& parallel = config.parallel;
  if (!is_described(arguments, config)) {
    if (!parallel.is_searched()) return nullptr;
    // Measured once for each number of ranks.
    const auto known = std::make_shared<std::map<int, ClusterChoice>>();
    return [&arguments, &config, &launch, known](int num_ranks) {
      const auto found = known->find(num_ranks);
      if (found != known->end()) return found->second;
      const LayoutRanks ranks = ranks_of_plan(arguments, config, launch, num_ranks);
      return known->emplace(num_ranks, cluster_of_search(config, ranks, Rates::kMeasured)).first->second;
    };
  }
  const std::string file = arguments.cluster.value_or(parallel.cluster);
  const std::string device = arguments.cluster ? arguments.device : parallel.cluster_device;
  const ClusterChoice choice{read_cluster(file), file, device};
  return [&arguments, &config, choice](int num_ranks) {
    return with_device(choice, {.threads = threads_of_rank(arguments, config, num_ranks),
                                .num_ranks = num_ranks,
                                .chosen_by = arguments.cluster ? "--device" : "parallel.cluster_device"});
  };
}

/// The job with its layout, chosen here for parallel.layout = "auto".
JobConfig with_layout(const PlanArguments& arguments, const JobConfig& config,
                      const LaunchEnvironment& launch, const ClusterOfRanks& cluster_of) {
  if (!config.parallel.is_searched()) return config;
  const ClusterChoice cluster = cluster_of(arguments.num_ranks);
  const LayoutRanks ranks =
      is_described(arguments, config)
          ? LayoutRanks{.num_ranks = arguments.num_ranks,
                        .hosts = hosts_of(arguments.num_ranks, ranks_of_machine(arguments, &cluster)),
                        .device = {},
                        .limit_bytes = config.parallel.memory_limit}
          : ranks_of_plan(arguments, config, launch, arguments.num_ranks);
  const ChosenLayout chosen = choose_layout(config, cluster, ranks);
  log_info(chosen.message);
  return chosen.config;
}

/// Reads the profile from the file of --times if it exists; otherwise measures it and writes the file.
BlockProfile profile_of(const PlanArguments& arguments, const JobConfig& config,
                        const LaunchEnvironment& launch) {
  const Device device = device_here(config, launch);
  const int threads = threads_of_rank(arguments, config, arguments.num_ranks);
  if (arguments.times && std::filesystem::exists(*arguments.times)) {
    BlockProfile profile = read_profile(*arguments.times);
    std::string mismatch = describe_mismatch(profile, config);
    if (mismatch.empty()) mismatch = describe_other_place(profile, device, threads);
    TRIREME_CHECK(mismatch.empty(), "--times {}: it was measured with {}; remove it to measure again",
                  *arguments.times, mismatch);
    return profile;
  }
  check_threads(config.parallel);
  BlockProfile profile = measure_profile(config, device, threads);
  if (arguments.times) write_text_file(*arguments.times, to_json(profile));
  return profile;
}

void print_timeline(const std::string& file, const Timeline& timeline, const Mesh& mesh) {
  print_line("");
  print_line(
      fmt::format("{}, simulated: forward and backward of a step take {:.2f} ms, the bubble is {:.1f} %",
                  file, timeline.duration_ms(), 100 * timeline.bubble_share()));
  for (int stage = 0; stage < mesh.size(Axis::kPipeline) && mesh.size(Axis::kPipeline) > 1; ++stage) {
    const double busy = timeline.busy_ms(mesh.rank({{Axis::kPipeline, stage}, {Axis::kData, 0}}));
    print_line(fmt::format("stage {}: {:.2f} ms of work, {:.1f} % of the step", stage, busy,
                           100 * busy / timeline.duration_ms()));
  }
}

/// The first screen, or the requested details.
std::string describe(const PlanArguments& arguments, const PlanReport& report) {
  if (arguments.json) return json_text(to_json(report), 1) + "\n";
  if (!arguments.memory && !arguments.actions && !arguments.rank) return to_text(report);
  const bool both = arguments.memory == arguments.actions;  // only --rank was given
  std::string text;
  if (both || arguments.memory) text += memory_details(report, arguments.rank);
  if (both) text += "\n";
  if (both || arguments.actions) text += action_details(report, arguments.rank);
  return text;
}

ExitCode run_plan(const PlanArguments& arguments, const LaunchEnvironment& launch) {
  check_arguments(arguments, launch);
  const JobConfig given = resolve(load_config(arguments.job, arguments.overrides));
  const std::string warning = check_schedule(given);  // as `train` does
  if (!warning.empty()) log_warning(warning);
  TRIREME_CHECK(
      !arguments.card || !given.parallel.is_searched(),
      "--card {} does not say how fast the card is, and parallel.layout = \"auto\" has to know: name a "
      "cluster's description with --cluster, in place of it",
      arguments.card.value_or(""));
  const ClusterOfRanks cluster_of = cluster_of_ranks(arguments, given, launch);
  TRIREME_CHECK(
      cluster_of || !(arguments.forecast.wanted() || arguments.forecast.deadline_hours),
      "--search, --scale, --cost and --deadline need --cluster FILE, which describes the ranks' machines "
      "(a job with parallel.layout = \"auto\" has a description)");
  if (arguments.forecast.wanted()) {
    return run_forecast(arguments.forecast, given, cluster_of,
                        {.num_ranks = arguments.num_ranks,
                         .ranks_per_machine = arguments.ranks_per_machine,
                         .json = arguments.json});
  }
  JobConfig config = with_layout(arguments, given, launch, cluster_of);
  const bool has_stages = config.parallel.layout.pipeline > 1;
  const bool measures_cut = has_stages && config.parallel.pipeline_cut.kind == PipelineCut::Kind::kMeasured;
  TRIREME_CHECK(!arguments.times || arguments.timeline || has_stages,
                "--times {} is about how long blocks take: it needs --timeline FILE, or a job with "
                "parallel.pipeline of 2 or more",
                *arguments.times);
  batch_layout(config, arguments.num_ranks);  // throws if the batch cannot be laid out
  std::optional<MeasuredCard> card;
  if (arguments.card) {
    TRIREME_CHECK(config.parallel.device != DeviceType::kCpu,
                  "--card {}: the job says parallel.device = \"cpu\"", *arguments.card);
    card = read_measured_card(*arguments.card);
    config.parallel.device = DeviceType::kCuda;
  }
  std::optional<ClusterChoice> cluster;
  if (is_described(arguments, given)) {
    cluster = cluster_of(arguments.num_ranks);
    config.parallel.device = cluster->ranks_device().type;
    card = card_of(*cluster);
  }
  config = counted_on(std::move(config), device_of_plan(config, launch));
  const int ranks_per_machine = ranks_of_machine(arguments, cluster ? &*cluster : nullptr);
  if (ranks_per_machine > 0) config.parallel.hosts = hosts_of(arguments.num_ranks, ranks_per_machine);
  std::optional<BlockProfile> profile;
  const bool knows_times = arguments.times && std::filesystem::exists(*arguments.times);
  if (measures_cut || (arguments.timeline && !cluster) || arguments.times)
    profile = profile_of(arguments, config, launch);
  if (measures_cut || (has_stages && config.parallel.pipeline_cut.kind == PipelineCut::Kind::kFlops)) {
    const MemoryLimit limit =
        planned_limit(config, arguments.num_ranks, ranks_per_machine, card ? &*card : nullptr);
    const CutMemory memory{.num_ranks = arguments.num_ranks, .limit_bytes = limit.bytes};
    config.parallel.pipeline_cut =
        measures_cut ? measured_cut(config, *profile, memory) : flops_cut(config, memory);
  }
  PlanReport report =
      make_plan_report(config, arguments.num_ranks, ranks_per_machine, profile ? &*profile : nullptr,
                       card ? &*card : nullptr, cluster ? &*cluster : nullptr);
  if (measures_cut && !knows_times) {
    report.cut_note =
        "parallel.pipeline_cut = \"measured\": these times were measured just now; a run measures its own, "
        "and may cut elsewhere. With --times OUT/block_times.json, which it writes, this is the cut that "
        "will run";
  }
  const std::string text = describe(arguments, report);
  if (!arguments.timeline) {
    print_text(text);
  } else {
    TRIREME_CHECK(arguments.send_ms >= 0, "--send-ms {} is no time",
                  arguments.send_ms);  // NaN passes CLI's check
    const Timeline timeline =
        cluster ? report.time->price.timeline : plan_timeline(report, *profile, arguments.send_ms);
    const std::string source = cluster
                                   ? fmt::format("the description of {} ({})", cluster->file, cluster->device)
                                   : describe_source(*profile);
    write_timeline(*arguments.timeline, timeline, report, source);
    print_text(text);
    if (!arguments.json) print_timeline(*arguments.timeline, timeline, report.plan.mesh);
  }
  // The exit code of `train`.
  return report.fit.fits() ? ExitCode::kDone : ExitCode::kBadInput;
}

/// Sorts the options of --help under titles.
void group_options(CLI::App& command) {
  struct Group {
    const char* title;
    std::vector<const char*> options;
  };
  const Group groups[] = {
      {"Job and machine", {"--set", "--ranks", "--ranks-per-machine", "--card", "--cluster", "--device"}},
      {"Output", {"--memory", "--actions", "--rank", "--json", "--force"}},
      {"Picture of a step", {"--timeline", "--times", "--send-ms"}},
      {"Search for a layout", {"--search", "--vary-micro-batch", "--write", "--budget", "--deadline"}},
      {"Scaling and cost",
       {"--scale", "--cost", "--tokens", "--samples", "--save-s", "--grow", "--autoscale", "--seed",
        "--plot"}},
  };
  for (const auto& [title, options] : groups) {
    for (const char* option : options) command.get_option(option)->group(title);
  }
}

}  // namespace

void add_plan_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Show the plan and the memory of a job's step without running it");
  command->add_option("JOB", arguments->job, "The job, a TOML file")->required();
  command
      ->add_option("--set", arguments->overrides, "Overrides a key of the job: section.key=value; repeatable")
      ->allow_extra_args(false);
  auto* ranks = command->add_option("--ranks", arguments->num_ranks, "Number of ranks (default: 1)");
  ranks->check(CLI::Range(1, 1 << 20));
  command
      ->add_option(
          "--ranks-per-machine", arguments->ranks_per_machine,
          "Ranks per machine; they share its memory, and machines are like this one (default: all ranks)")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--card", arguments->card,
                      "GPU of each rank: the output of `trireme doctor --json` on a machine with one, or "
                      "probe.json of tests/bench/gpu_gate.sh");
  auto* cluster =
      command->add_option("--cluster", arguments->cluster,
                          "Predict the step time on the cluster that this file describes (see `trireme "
                          "doctor --measure`, examples/clusters); the memory of its device is the limit");
  command->add_option("--device", arguments->device, "Device of the ranks, if the cluster has several")
      ->needs(cluster);
  add_forecast_options(*command, arguments->forecast)->excludes(ranks);
  auto* memory = command->add_flag("--memory", arguments->memory,
                                   "Only print memory and traffic by purpose, to the byte");
  auto* actions =
      command->add_flag("--actions", arguments->actions, "Only print the actions of each rank, in order");
  auto* rank =
      command
          ->add_option("--rank", arguments->rank,
                       "Only print memory and actions of this rank, or the one of them that is requested")
          ->check(CLI::Range(0, 1 << 20));
  command->add_flag("--json", arguments->json, "Print all of it as JSON")
      ->excludes(memory)
      ->excludes(actions)
      ->excludes(rank);
  auto* timeline = command->add_option(
      "--timeline", arguments->timeline,
      "Draw ranks over time: FILE.svg, or FILE.json for Perfetto. First times each block on this machine");
  command->add_flag("--force", arguments->forecast.force,
                    "Replace an existing file of --timeline, --write or --plot");
  command->add_option(
      "--times", arguments->times,
      "Times of the blocks: read from this file if it exists, otherwise measured and written to it");
  command->add_option("--send-ms", arguments->send_ms, "Milliseconds from a send to its arrival (default: 0)")
      ->check(finite_range(0.0, 1e9))
      ->needs(timeline);
  group_options(*command);
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_plan(*arguments, launch); };
  });
}

}  // namespace trireme
