// What a run does before its first step: check the job, choose a checkpoint, build the engine, open the log.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "launcher/build_info.h"
#include "launcher/families/model_family.h"
#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/train/accumulation.h"
#include "launcher/train/agreement.h"
#include "launcher/train/image_data.h"
#include "launcher/train/memory_fit.h"
#include "launcher/train/trainer.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/log.h"

namespace trireme {

void Trainer::check_job() {
  const JobConfig& config = options_.config;
  batch_layout(config, options_.comm->size());  // refuses what cannot be laid out
  // Ranks of one machine read the same files: one of them reads them whole.
  data_ = open_data(config, /*check_tokens=*/options_.launch.local_rank == 0);
  if (config.data.kind == DataKind::kTokens) prepared_ = find_prepared_data(config.data.train);
  prediction_ = check_memory(counted_on(config, options_.device.type), options_.blocks, options_.comm->size(),
                             options_.comm->rank(),
                             memory_limit(config, options_.device, options_.launch.num_local_ranks));
}

void Trainer::claim_output() {
  if (!is_first()) return;
  prepare_output_folder(out_.root);
  lock_ = std::make_unique<FolderLock>(out_.root);
}

void Trainer::choose_resume() {
  std::string folder;
  run_stage(*options_.comm, [&] {
    if (!is_first()) return;
    const auto found = find_resume(store_, options_.config.checkpoint.resume);
    const std::int64_t step = found ? found->manifest.step : 0;
    TRIREME_CHECK(step <= num_steps(),
                  "{} is of step {}, beyond train.steps = {}: raise it, or choose another --out",
                  found->folder.string(), step, num_steps());
    if (found) folder = found->folder.string();
    if (options_.config.checkpoint.resume.kind == Resume::Kind::kAuto) return;  // it is the newest whole one
    // Whole checkpoints of later steps would win the next `auto`, and push this run's out of checkpoint.keep.
    const auto newest = store_.latest(Verify::kSizes);
    TRIREME_CHECK(
        !newest || newest->manifest.step <= step,
        "{} holds later checkpoints, up to step {}, but this run starts at step {}: choose another --out, "
        "or remove them",
        store_.root().string(), newest->manifest.step, step);
  });
  resume_folder_ = text_of_rank(*options_.comm, 0, folder);
}

void Trainer::read_resumed() {
  if (!resume_folder_.empty()) resumed_ = read_run_state(open_checkpoint(resume_folder_, Verify::kSizes));
  check_classes(options_.config, data_, {.where = resume_folder_.string(), .names = resumed_.class_names});
}

void Trainer::build_engine() {
  options_.comm->progress_in_background(options_.config.parallel.progress_thread);
  engine_ = std::make_unique<Engine>(options_.blocks, options_.comm, engine_options_);
  keep_pictures();
}

void Trainer::keep_pictures() {
  Buffer memory = engine_->data_cache();
  const std::int64_t wanted = engine_options_.data_cache_bytes;
  if (!memory.defined() && wanted > 0 && !traits(engine_options_.device.type).host_memory) {
    // The engine counts the GPU's memory; this is the host's.
    const Context host = Context::create({DeviceType::kCpu, 0}, 1);
    memory = Buffer(host.allocator, static_cast<std::size_t>(wanted), MemoryCategory::kData);
  }
  if (!memory.defined()) return;
  const auto pictures = std::make_shared<PictureMemory>(memory);
  for (const auto& images : {data_.train_images, data_.eval_images}) {
    if (images) images->keep_in(pictures);
  }
}

void Trainer::load_initial_model() {
  const std::string& file = options_.config.model.init_from;
  const Watchdog::Scope watch = watched("the reading of " + file);
  run_stage(*options_.comm, [&] {
    try {
      check_model(*engine_, file);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("model.init_from: {}", error.what()), error.where());
    }
  });
  run_stage(*options_.comm, [&] { load_model(*engine_, file); });
  agreed_state_hash();  // of every rank's file
}

void Trainer::restore() {
  if (resume_folder_.empty()) {
    if (!options_.config.model.init_from.empty()) load_initial_model();
    return;
  }
  const Watchdog::Scope watch = watched("the restoring of " + resume_folder_.string());
  Communicator& comm = *options_.comm;
  run_stage(comm, [this] { load_state(*engine_, resume_folder_, StateParts::kAll); });
  engine_->set_steps_done(resumed_.step);
  if (resumed_.loss_scale) {
    const PrecisionSection &before = resumed_.config.precision, &now = options_.config.precision;
    if (before.loss_scale != now.loss_scale || before.scale_init != now.scale_init) {
      *resumed_.loss_scale = {.updates = resumed_.loss_scale->updates};  // what is set anew starts anew
    }
    engine_->set_loss_scale_state(*resumed_.loss_scale);
  }
  if (resume_folder_.parent_path() == store_.root()) last_saved_step_ = resumed_.step;
  const std::string hash = agreed_state_hash();
  if (hash == resumed_.state_hash) return;
  throw AgreedError(ErrorCode::kInvalidInput,
                    fmt::format("{}: the restored state has the hash {}, the manifest says {}",
                                resume_folder_.string(), hash, resumed_.state_hash));
}

void Trainer::open_log() {
  // Stages in the middle of a pipeline never look at a batch.
  const int stage = engine_->groups().coord()[Axis::kPipeline],
            last_stage = engine_->groups().mesh.size(Axis::kPipeline) - 1;
  const bool reads = stage == 0 || stage == last_stage;
  const SampleSpec sample = sample_spec(options_.config);
  batches_ = std::make_unique<TrainingBatches>(
      TrainingBatches::Options{.dataset = data_.train,
                               .batch = engine_->batch(),
                               .data_rank = engine_->groups().coord()[Axis::kData],
                               .first_step = engine_->steps_done(),
                               .num_steps = reads ? num_steps() : 0,
                               .workers = num_data_workers(options_.config, engine_options_.threads),
                               .sample_bytes = sample.input.num_elems() * size_bytes(sample.input_dtype)});
  if (!is_first()) return;
  write_text_file(out_.config(), to_toml(options_.config));
  log_ = std::make_unique<RunLog>(RunLog::Options{.out = out_,
                                                  .resume_step = engine_->steps_done(),
                                                  .evaluates_again = resumed_.evaluation_due && data_.eval,
                                                  .num_steps = num_steps(),
                                                  .log_every = options_.config.log.every,
                                                  .terminal = output_is_terminal(options_.launch),
                                                  .summary = initial_summary()});
  watch_ = std::make_unique<OutputWatch>(out_);
  log_->line(describe_start());
  const std::string accumulation = describe_accumulation(engine_options_, options_.comm->size());
  if (!accumulation.empty()) log_->line(accumulation);
  const std::string& init_from = options_.config.model.init_from;
  if (resume_folder_.empty() && !init_from.empty()) log_->line(fmt::format("starting from {}", init_from));
  if (resume_folder_.empty()) return;
  log_->line(fmt::format("resuming from {}", resume_folder_.string()));
  const bool scale_is_known = resumed_.loss_scale && resumed_.loss_scale->scale > 0;
  if (engine_options_.loss_scale.kind == LossScaleConfig::Kind::kDynamic && !scale_is_known) {
    log_->line(fmt::format(
        "the loss scale starts at {}: the checkpoint has none, or precision.loss_scale or scale_init "
        "was another",
        engine_options_.loss_scale.initial));
  }
  for (const std::string& change : describe_changes(resumed_.config, options_.config)) {
    log_warning("the checkpoint was made with another " + change);
  }
  for (const std::string& change : describe_changes(resumed_.arithmetic, options_.arithmetic)) {
    log_warning(fmt::format(
        "the checkpoint was made with another {}: from here on last bits may differ from those of "
        "a run that was not interrupted",
        change));
  }
}

RunSummary Trainer::initial_summary() const {
  RunSummary summary{.version = build_info::kVersion,
                     .precision = to_word(options_.config.precision.mode),
                     .num_parameters = engine_->layout().num_parameters,
                     .loss = resumed_.loss,
                     .eval_loss = resumed_.eval_loss,
                     .throughput_unit = std::string(family_of(options_.config.model).data.throughput_unit),
                     .checkpoint = last_saved_step_ >= 0 ? resume_folder_.string() : ""};
  const int num_ranks = options_.comm->size();
  summary.layout = {.device = to_string(engine_options_.device),
                    .communicator = options_.comm->kind(),
                    .num_ranks = num_ranks,
                    .num_data_ranks = engine_->groups().mesh.size(Axis::kData),
                    .num_pipeline_stages = engine_->groups().mesh.size(Axis::kPipeline),
                    .zero_stage = static_cast<int>(options_.config.parallel.zero),
                    .accumulate_unsharded = engine_options_.accumulate_unsharded,
                    .keep_gathered = engine_options_.keep_gathered,
                    .recompute_every = engine_options_.recompute_every,
                    .num_threads = engine_options_.threads,
                    .num_accumulated_micro_batches = engine_->batch().per_rank(),
                    .reduction = to_word(options_.config.parallel.reduction)};
  return summary;
}

std::string Trainer::describe_start() const {
  const auto& [model, train] = std::tie(options_.config.model, options_.config.train);
  const int num_ranks = options_.comm->size();
  const std::string sample = family_of(model).data.describe_sample(options_.config);
  return fmt::format(
      "{} with {} parameters in {}; {} rank(s) x {} thread(s); a step is {} samples of {}, {} x {} on each "
      "rank; "
      "{} a rank{}",
      model.name, engine_->layout().num_parameters, to_word(options_.config.precision.mode), num_ranks,
      engine_options_.threads, train.global_batch, sample, engine_->batch().per_rank(), train.micro_batch,
      format_bytes(prediction_.memory.peak_total),
      engine_->stages().pipeline > 1 ? " of the first stage" : "");
}

}  // namespace trireme
