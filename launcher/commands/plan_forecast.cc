#include "launcher/commands/plan_forecast.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "launcher/commands/number_range.h"
#include "launcher/commands/output_file.h"
#include "launcher/host/standard_output.h"
#include "launcher/keys/job_file.h"
#include "launcher/render/json_text.h"
#include "launcher/report/affordable_ranks.h"
#include "launcher/report/cost_report.h"
#include "launcher/report/layouts_report.h"
#include "launcher/report/scale_report.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr int kMostRanks = 1 << 20;

/// Parses "1..1024", where `between` is "..".
std::pair<int, int> parse_range(const char* option, const std::string& text, const std::string& between) {
  std::pair<int, int> range{0, 0};
  const char* const stop = text.data() + text.size();
  const auto [middle, bad_first] = std::from_chars(text.data(), stop, range.first);
  const std::string_view rest(middle, static_cast<std::size_t>(stop - middle));
  bool good = bad_first == std::errc() && rest.starts_with(between);
  if (good) {
    const auto [end, bad] = std::from_chars(middle + between.size(), stop, range.second);
    good = bad == std::errc() && end == stop;
  }
  TRIREME_CHECK(good && range.first >= 1 && range.second >= range.first && range.second <= kMostRanks,
                "{} {}: it takes the fewest and the most ranks, as in 1{}64, from 1 to {}", option, text,
                between, kMostRanks);
  return range;
}

void print_report(const auto& report, const ForecastPlace& place) {
  print_text(place.json ? json_text(to_json(report), 1) + "\n" : to_text(report));
}

ExitCode show_layouts(const ForecastArguments& arguments, const JobConfig& job,
                      const ClusterOfRanks& cluster_of, const ForecastPlace& place) {
  const ClusterChoice cluster = cluster_of(place.num_ranks);
  const int machine = place.ranks_per_machine > 0 ? place.ranks_per_machine
                                                  : std::min(place.num_ranks, cluster.cluster.ranks_per_node);
  const LayoutsReport report = find_layouts(job, cluster,
                                            {.num_ranks = place.num_ranks,
                                             .ranks_per_machine = machine,
                                             .varies_micro_batch = arguments.vary_micro_batch,
                                             .on_progress = progress_lines()});
  print_report(report, place);
  if (report.found.best.empty()) return ExitCode::kBadInput;
  if (arguments.write) write_text_file(*arguments.write, to_toml(report.configs[0]));
  return ExitCode::kDone;
}

ExitCode show_affordable(const ForecastArguments& arguments, const JobConfig& job,
                         const ClusterOfRanks& cluster_of, const ForecastPlace& place) {
  const AffordableRanks found = find_affordable_ranks(job, cluster_of,
                                                      {.budget = arguments.budget,
                                                       .deadline_hours = arguments.deadline_hours,
                                                       .most_ranks = place.num_ranks,
                                                       .ranks_per_machine = place.ranks_per_machine,
                                                       .varies_micro_batch = arguments.vary_micro_batch,
                                                       .on_progress = progress_lines()});
  print_report(found, place);
  if (!found.chosen) return ExitCode::kBadInput;
  if (arguments.write) write_text_file(*arguments.write, to_toml(found.layouts->configs[0]));
  return ExitCode::kDone;
}

ExitCode show_scale(const ForecastArguments& arguments, const JobConfig& job,
                    const ClusterOfRanks& cluster_of, const ForecastPlace& place) {
  const auto [first, last] = parse_range("--scale", *arguments.scale, "..");
  const ScaleReport report = scale_job(job, cluster_of, first, last, progress_lines());
  print_report(report, place);
  if (arguments.plot) write_text_file(*arguments.plot, to_svg(plot_of(report)));
  return report.fits_anywhere() ? ExitCode::kDone : ExitCode::kBadInput;
}

ExitCode show_cost(const ForecastArguments& arguments, const JobConfig& job, const ClusterOfRanks& cluster_of,
                   const ForecastPlace& place) {
  CostRequest request{.num_ranks = place.num_ranks,
                      .save_s = arguments.save_s,
                      .deadline_hours = arguments.deadline_hours.value_or(0),
                      .seed = arguments.seed,
                      .on_progress = progress_lines()};
  TRIREME_CHECK(!arguments.tokens || job.model.seq_len > 0,
                "--tokens {}: the job's samples have no tokens; say --samples", arguments.tokens.value_or(0));
  if (arguments.tokens) request.samples = *arguments.tokens / static_cast<double>(job.model.seq_len);
  if (arguments.samples) request.samples = *arguments.samples;
  if (arguments.grow) request.growth = parse_growth(*arguments.grow);
  if (arguments.autoscale) request.autoscale = parse_range("--autoscale", *arguments.autoscale, ":");
  const CostReport report = cost_of_job(job, cluster_of, request);
  print_report(report, place);
  if (arguments.plot) write_text_file(*arguments.plot, to_svg(cost_plot(job, cluster_of, request)));
  const bool fits = std::ranges::all_of(report.points, &ForeseenStep::fits);
  return fits ? ExitCode::kDone : ExitCode::kBadInput;
}

}  // namespace

CLI::Option* add_forecast_options(CLI::App& command, ForecastArguments& arguments) {
  auto* search = command.add_flag("--search", arguments.search,
                                  "Only print the ten fastest layouts for --ranks that fit in memory");
  command
      .add_flag("--vary-micro-batch", arguments.vary_micro_batch,
                "Let --search change train.micro_batch, which changes the last bits of the results")
      ->needs(search);
  command
      .add_option("--write", arguments.write, "Write the job with the fastest layout found to this TOML file")
      ->needs(search);
  command
      .add_option(
          "--budget", arguments.budget,
          "Search 1, 2, 4, ... up to --ranks ranks for the fastest layout that costs at most this much")
      ->check(finite_range(0.0, 1e15))
      ->needs(search);
  command
      .add_option("--deadline", arguments.deadline_hours,
                  "In hours. With --search: search 1, 2, 4, ... up to --ranks ranks for the cheapest layout "
                  "that ends in time. With --autoscale: time by which the job must end")
      ->check(finite_range(1e-9, 1e9));
  auto* scale = command.add_option("--scale", arguments.scale,
                                   "Only print efficiency at A, 2A, 4A, ... ranks, given A..B, with the "
                                   "job's batch and with a batch that grows with the ranks");
  auto* cost = command.add_flag(
      "--cost", arguments.cost,
      "Only print hours and cost of the whole job on --ranks ranks, reserved and preemptible");
  auto* tokens = command.add_option("--tokens", arguments.tokens,
                                    "With --cost: tokens to train on, instead of train.steps");
  tokens->check(finite_range(1.0, 1e18))->needs(cost);
  command
      .add_option("--samples", arguments.samples,
                  "With --cost: samples to train on (epochs times samples), instead of train.steps")
      ->check(finite_range(1.0, 1e18))
      ->needs(cost)
      ->excludes(tokens);
  command.add_option("--save-s", arguments.save_s, "With --cost: measured seconds of a checkpoint")
      ->check(finite_range(1e-6, 1e9))
      ->needs(cost);
  command
      .add_option("--grow", arguments.grow,
                  "With --cost: RANKS:SHARE,...,RANKS; 4:0.5,16 uses 4 ranks for half of the steps, then 16")
      ->needs(cost);
  command
      .add_option("--autoscale", arguments.autoscale,
                  "With --cost: MIN:MAX; uses the fewest of MIN, 2 MIN, 4 MIN, ... and MAX ranks that end "
                  "the remaining steps by --deadline")
      ->needs(cost);
  command
      .add_option("--seed", arguments.seed, "With --cost: seed of the simulated interruptions (default: 1)")
      ->check(not_negative())
      ->needs(cost);
  command.add_option("--plot", arguments.plot, "With --scale and --cost: draw the result as FILE.svg");
  return scale;
}

void check_forecast(const ForecastArguments& arguments) {
  if (arguments.write) check_is_new("--write", *arguments.write, arguments.force);
  if (arguments.plot) check_is_new("--plot", *arguments.plot, arguments.force);
  const int kinds = int(arguments.search) + int(arguments.cost) + int(arguments.scale.has_value());
  TRIREME_CHECK(kinds <= 1, "--search, --scale and --cost each show something else: give one");
  TRIREME_CHECK(!arguments.plot || arguments.cost || arguments.scale,
                "--plot {} is a picture of --scale or --cost: give one of them", arguments.plot.value_or(""));
  TRIREME_CHECK(!arguments.plot || arguments.plot->ends_with(".svg"), "--plot {}: its name ends with .svg",
                arguments.plot.value_or(""));
  TRIREME_CHECK(!arguments.deadline_hours || arguments.search || arguments.autoscale,
                "--deadline {} is for --search, or for --cost with --autoscale",
                arguments.deadline_hours.value_or(0));
  // Check output files before the long computation.
  if (arguments.write) check_can_be_written("--write", *arguments.write);
  if (arguments.plot) check_can_be_written("--plot", *arguments.plot);
  if (arguments.scale) parse_range("--scale", *arguments.scale, "..");
  if (arguments.autoscale) parse_range("--autoscale", *arguments.autoscale, ":");
  if (arguments.grow) parse_growth(*arguments.grow);
}

ExitCode run_forecast(const ForecastArguments& arguments, const JobConfig& job,
                      const ClusterOfRanks& cluster_of, const ForecastPlace& place) {
  if (arguments.scale) return show_scale(arguments, job, cluster_of, place);
  if (arguments.cost) return show_cost(arguments, job, cluster_of, place);
  if (arguments.budget || arguments.deadline_hours) return show_affordable(arguments, job, cluster_of, place);
  return show_layouts(arguments, job, cluster_of, place);
}

}  // namespace trireme
