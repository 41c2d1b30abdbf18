#include "launcher/train/start_lines.h"

#include <fmt/ranges.h>

#include <tuple>

#include "launcher/families/model_family.h"
#include "launcher/host/build_info.h"
#include "launcher/job/accumulation.h"
#include "launcher/keys/config_difference.h"
#include "launcher/report/placement.h"
#include "launcher/train/partner_start.h"
#include "launcher/train/skipped_steps.h"
#include "runtime/base/log.h"

namespace trireme {

RunSummary initial_summary(const TrainingRun& run) {
  RunSummary summary{.version = build_info::kVersion,
                     .precision = to_word(run.options.config.precision.mode),
                     .num_parameters = run.engine->layout().num_parameters,
                     .loss = run.resumed.loss,
                     .eval_loss = run.resumed.eval_loss,
                     .eval_of_averages = run.resumed.eval_loss && run.resumed.config.train.ema > 0,
                     .throughput_unit = std::string(family_of(run.options.config.model).data.throughput_unit),
                     .checkpoint = run.last_saved_step >= 0 ? run.resume_folder.string() : ""};
  const int num_ranks = run.comm().size();
  summary.layout = {.device = to_string(run.engine_options.device),
                    .communicator = run.comm().kind(),
                    .num_ranks = num_ranks,
                    .num_data_ranks = run.engine->groups().mesh.size(Axis::kData),
                    .layout = run.engine_options.layout,
                    .num_threads = run.engine_options.threads,
                    .num_accumulated_micro_batches = run.engine->batch().per_rank(),
                    .reduction = to_word(run.options.config.parallel.reduction),
                    .num_hosts = num_hosts(run.engine->hosts())};
  const bool has_two_levels = run.engine->exchange().data_ranks_per_host > 1;
  summary.layout.layout.exchange = has_two_levels ? Exchange::kHierarchical : Exchange::kFlat;
  return summary;
}

std::string describe_start(const TrainingRun& run) {
  const auto& [model, train] = std::tie(run.options.config.model, run.options.config.train);
  const int num_ranks = run.comm().size();
  const std::string sample = family_of(model).data.describe_sample(run.options.config);
  const ModelLayout& layout = run.engine->layout();
  const std::string trained = layout.num_frozen == 0 ? ""
                                                     : fmt::format(", {} of them trained,",
                                                                   layout.num_parameters - layout.num_frozen);
  return fmt::format(
      "{} with {} parameters{} in {}; {} rank(s) x {} thread(s); a step is {} samples of {}, {} x {} on each "
      "rank; "
      "{} a rank{}",
      model.name, layout.num_parameters, trained, to_word(run.options.config.precision.mode), num_ranks,
      run.engine_options.threads, train.global_batch, sample, num_accumulated(run.engine->batch()),
      train.micro_batch, format_bytes(run.prediction.memory.peak_total),
      run.engine->stages().pipeline > 1 ? " of the first stage" : "");
}

void log_start(TrainingRun& run) {
  if (run.engine_options.products)
    run.log->line(fmt::format("{}: {}", run.out.products().string(), describe(run.products.choices)));
  const std::string accumulation = describe_accumulation(run.engine_options, run.comm().size());
  if (!accumulation.empty()) run.log->line(accumulation);
  const Placement placement{run.engine->groups().mesh, run.engine->hosts()};
  const std::string exchange =
      describe_exchange(placement, run.options.config.parallel.layout.exchange, run.engine->exchange());
  if (!exchange.empty()) run.log->line(exchange);
  const std::string far_tensor = warn_of_tensor_over_hosts(placement, run.prediction);
  if (!far_tensor.empty()) log_warning(far_tensor);
  const std::string& init_from = run.options.config.model.init_from;
  if (run.resume_folder.empty() && !init_from.empty())
    run.log->line(fmt::format(
        "starting from {}{}", init_from,
        run.new_tensors.empty()
            ? ""
            : fmt::format("; not there, and drawn from train.seed: {}", fmt::join(run.new_tensors, ", "))));
  for (const std::string& note : run.import_notes) run.log->line(note);
  if (run.partner) run.log->line(describe_partner(run));
}

void log_resume(TrainingRun& run) {
  if (run.partner && run.partner->from)
    report_partner_resume(run);
  else
    run.log->line(fmt::format("resuming from {}", run.resume_folder.string()));
  const bool scale_is_known = run.resumed.loss_scale && run.resumed.loss_scale->scale > 0;
  if (run.engine_options.loss_scale.kind == LossScaleConfig::Kind::kDynamic && !scale_is_known) {
    run.log->line(fmt::format(
        "the loss scale starts at {}: the checkpoint has none, or precision.loss_scale or scale_init "
        "was another",
        run.engine_options.loss_scale.initial));
  }
  if (run.options.config.train.on_spike != OnSpike::kIgnore && !run.resumed.spikes)
    run.log->line(
        "train.on_spike: the checkpoint is of an earlier build, which saved no losses of steps before "
        "it: spikes are found once enough steps are done");
  const std::string updates =
      run.resumed.loss_scale ? describe_updates(run.resumed.step, run.resumed.loss_scale->updates) : "";
  if (!updates.empty()) {
    run.log->line(fmt::format("the checkpoint is of step {}{}; warm-up and schedule count steps",
                              run.resumed.step, updates));
  }
  for (const std::string& change : describe_changes(run.resumed.config, run.options.config)) {
    log_warning("the checkpoint was made with another " + change);
  }
  for (const std::string& change : describe_changes(run.resumed.arithmetic, run.options.arithmetic)) {
    log_warning(fmt::format(
        "the checkpoint was made with another {}: from here on last bits may differ from those of "
        "a run that was not interrupted",
        change));
  }
}

}  // namespace trireme
