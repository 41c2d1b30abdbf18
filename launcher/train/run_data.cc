#include "launcher/train/run_data.h"

#include <fmt/core.h>

#include <string>

#include "launcher/data/data_check.h"
#include "launcher/data/image_data.h"
#include "launcher/host/agreement.h"
#include "launcher/train/run_start.h"
#include "launcher/train/weights_record.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

DataChanges compare_with_start(TrainingRun& run, MetData met) {
  if (!run.resume_folder.empty()) return compare_data(Meeting::kResume, run.resumed.data, met);
  const std::string& init_from = run.options.config.model.init_from;
  if (init_from.empty()) return {};
  try {
    const WeightsRecord weights = record_of_weights(init_from, met.data);
    met.checkpoint = weights.place;
    DataChanges changes = compare_data(Meeting::kInitFrom, weights.data, met);
    changes.warnings.insert(changes.warnings.end(), weights.notes.begin(), weights.notes.end());
    return changes;
  } catch (const Error& error) {
    throw error.saying(fmt::format("model.init_from: {}", error.what()));
  }
}

}  // namespace

void meet_data(TrainingRun& run) {
  DataChanges changes;
  run_stage(run.comm(), [&] {
    const JobConfig& config = run.options.config;
    const MetData met = met_by_training(config, run.data, run.resume_folder.string());
    changes = compare_with_start(run, met);  // class names before their number
    check_classes(config, run.data);
    run.record = met.data;
    // The checkpoint may have more class names than the data.
    run.record.class_names = run.resumed.data.class_names;
    if (run.record.class_names.empty()) run.record.class_names = classes_of_training(config, run.data).names;
  });
  run.data_changes = std::move(changes);
  // Only the first rank of each machine has read all data.
  run.data_changes.training_data = any_rank(run.comm(), run.data_changes.training_data);
  run.first_sample = run.data_changes.training_data ? 0 : run.resumed.data.samples;
}

void log_data(const TrainingRun& run) {
  for (const std::string& warning : run.data_changes.warnings) log_warning(warning);
  if (run.resume_folder.empty()) return;
  const std::string unknown = describe_unknown_data(run.resumed.data, run.resume_folder.string());
  if (!unknown.empty()) run.log->line(unknown);
  if (run.data_changes.training_data) {
    run.log->line(fmt::format(
        "checkpoint.new_data = true: reading begins with the first sample of {}; the previous run "
        "read {} samples",
        run.options.config.data.train, run.resumed.data.samples));
  }
  const std::int64_t before = run.resumed.config.train.global_batch,
                     now = run.options.config.train.global_batch;
  if (before == now) return;
  run.log->line(fmt::format(
      "train.global_batch was {} and is {}: reading continues at sample {}; each sample is read once "
      "per pass. train.steps, warm-up and schedule count steps: {} of {} are left, with {} samples each "
      "instead of {}",
      before, now, run.first_sample, run.num_steps() - run.resumed.step, run.num_steps(), now, before));
}

}  // namespace trireme
