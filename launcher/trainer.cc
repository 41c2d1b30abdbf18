#include "launcher/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "launcher/agreement.h"
#include "launcher/build_info.h"
#include "launcher/machine.h"
#include "launcher/memory_fit.h"
#include "launcher/skipped_steps.h"
#include "parallel/checkpoint_state.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace

Trainer::Trainer(Options options)
    : options_(std::move(options)),
      out_{options_.out},
      store_(out_.checkpoints()),
      lr_(lr_schedule(options_.config)) {
  engine_options_ = engine_options(options_.config);
  engine_options_.device = options_.device;
  const CoreCounts cores = count_cores();
  if (options_.config.parallel.threads == 0) {
    engine_options_.threads = threads_per_rank(cores, options_.launch.num_local_ranks);
    const std::string idle = describe_idle_cores(cores, options_.launch.num_local_ranks);
    if (!idle.empty() && is_first()) log_warning(idle);
  }
}

Trainer::~Trainer() = default;

ExitCode Trainer::run(const StopRequest& stop) {
  Communicator& comm = *options_.comm;
  run_stage(comm, [this] { check_job(); });
  check_same_data(comm, data_.fingerprint);
  choose_resume();
  run_stage(comm, [this] { claim_output(); });
  run_stage(comm, [this] { build_engine(); });
  restore();
  run_stage(comm, [this] { open_log(); });
  try {
    while (engine_->steps_done() < num_steps()) {
      if (any_rank(comm, stop.requested())) return end(ExitCode::kStopped);
      step();
    }
    return end(ExitCode::kDone);
  } catch (const AgreedError&) {
    throw;
  } catch (const Error& error) {
    // Whatever a check calls it, from step 1 on it is a failure while running.
    throw Error(ErrorCode::kRuntime, error.what(), error.where());
  }
}

void Trainer::check_job() {
  const JobConfig& config = options_.config;
  check_batch(config.train, options_.comm->size());
  // Ranks of one machine read the same files: one of them reads them whole.
  data_ = open_data(config, /*check_tokens=*/options_.launch.local_rank == 0);
  if (config.data.kind == "tokens") prepared_ = find_prepared_data(config.data.train);
  blocks_ = build_blocks(config.model);
  prediction_ = check_memory(config, blocks_, options_.comm->size(), options_.comm->rank(),
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
    if (options_.config.checkpoint.resume == "auto") return;  // it is the newest whole one
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

void Trainer::build_engine() {
  options_.comm->progress_in_background(options_.config.parallel.progress_thread);
  engine_ = std::make_unique<Engine>(blocks_, options_.comm, engine_options_);
}

void Trainer::restore() {
  if (resume_folder_.empty()) return;
  Communicator& comm = *options_.comm;
  // First what a rank may fail alone, as where a file system is not shared; then what ranks do together.
  run_stage(comm, [this] { resumed_ = read_run_state(open_checkpoint(resume_folder_, Verify::kSizes)); });
  run_stage(comm, [this] { load_state(*engine_, resume_folder_, StateParts::kAll); });
  engine_->set_steps_done(resumed_.step);
  if (resumed_.loss_scale) engine_->set_loss_scale_state(*resumed_.loss_scale);
  if (resume_folder_.parent_path() == store_.root()) last_saved_step_ = resumed_.step;
  const std::string hash = agreed_state_hash();
  if (hash == resumed_.state_hash) return;
  throw AgreedError(ErrorCode::kInvalidInput,
                    fmt::format("{}: the restored state has the hash {}, the manifest says {}",
                                resume_folder_.string(), hash, resumed_.state_hash));
}

void Trainer::open_log() {
  batches_ = std::make_unique<TrainingBatches>(TrainingBatches::Options{.dataset = data_.train,
                                                                        .batch = engine_->batch(),
                                                                        .data_rank = options_.comm->rank(),
                                                                        .first_step = engine_->steps_done(),
                                                                        .num_steps = num_steps()});
  if (!is_first()) return;
  write_text_file(out_.config(), to_toml(options_.config));
  log_ = std::make_unique<RunLog>(RunLog::Options{.out = out_,
                                                  .resume_step = engine_->steps_done(),
                                                  .num_steps = num_steps(),
                                                  .log_every = options_.config.log.every,
                                                  .terminal = output_is_terminal(options_.launch),
                                                  .summary = initial_summary()});
  log_->line(describe_start());
  if (resume_folder_.empty()) return;
  log_->line(fmt::format("resuming from {}", resume_folder_.string()));
  const bool scale_is_known = resumed_.loss_scale && resumed_.loss_scale->scale > 0;
  if (engine_options_.loss_scale.kind == LossScaleConfig::Kind::kDynamic && !scale_is_known) {
    log_->line(
        fmt::format("the checkpoint has no loss scale: it starts at {}", engine_options_.loss_scale.initial));
  }
  for (const std::string& change : describe_changes(resumed_.config, options_.config)) {
    log_warning("the checkpoint was made with another " + change);
  }
}

RunSummary Trainer::initial_summary() const {
  RunSummary summary{.version = build_info::kVersion,
                     .precision = options_.config.precision.mode,
                     .num_parameters = engine_->layout().num_parameters,
                     .loss = resumed_.loss,
                     .eval_loss = resumed_.eval_loss,
                     .checkpoint = last_saved_step_ >= 0 ? resume_folder_.string() : ""};
  const auto& train = options_.config.train;
  const int num_ranks = options_.comm->size();
  summary.layout = {.device = to_string(engine_options_.device),
                    .communicator = options_.comm->kind(),
                    .num_ranks = num_ranks,
                    .num_data_ranks = num_ranks,
                    .zero_stage = static_cast<int>(options_.config.parallel.zero),
                    .recompute_every = engine_options_.recompute_every,
                    .num_threads = engine_options_.threads,
                    .num_accumulated_micro_batches = train.global_batch / train.micro_batch / num_ranks,
                    .reduction = options_.config.parallel.reduction};
  return summary;
}

std::string Trainer::describe_start() const {
  const auto& [model, train] = std::tie(options_.config.model, options_.config.train);
  const int num_ranks = options_.comm->size();
  return fmt::format(
      "{} with {} parameters in {}; {} rank(s) x {} thread(s); a step is {} samples of {} tokens, {} x {} on "
      "each "
      "rank; "
      "{} a rank",
      model.name, engine_->layout().num_parameters, options_.config.precision.mode, num_ranks,
      engine_options_.threads, train.global_batch, model.seq_len,
      train.global_batch / train.micro_batch / num_ranks, train.micro_batch,
      format_bytes(prediction_.memory.peak_total));
}

void Trainer::step() {
  const auto start = Clock::now();
  const double lr = lr_.at(engine_->steps_done());
  engine_->enqueue_step(batches_->source(), num_targets(), lr);
  unread_.push_back({.lr = lr, .enqueue_ms = ms_since(start), .data_wait_ms = batches_->take_wait_ms()});

  const auto& config = options_.config;
  const std::int64_t step = engine_->steps_done();
  const bool last = step == num_steps();
  const bool evaluates = data_.eval && (last || is_due(step, config.train.eval_every));
  const bool saves = last || is_due(step, config.checkpoint.every);
  // What stands between two steps wants the results of all steps before it. A device that has finished when
  // the call returns is read at once: it costs nothing, and a skipped step is then explained exactly.
  const bool waits =
      evaluates || saves || is_due(step, config.log.state_hash_every) || !engine_->is_asynchronous();
  read_results(waits ? 0 : 1);
  if (evaluates) evaluate();
  if (saves) save();
}

void Trainer::read_results(std::size_t left) {
  while (engine_->num_pending() > left) read_result();
}

void Trainer::read_result() {
  const auto start = Clock::now();
  const StepResult result = engine_->collect();
  const UnreadStep step = unread_.front();
  unread_.pop_front();
  const double step_ms = step.enqueue_ms + ms_since(start);
  const bool hashed = is_due(result.step, options_.config.log.state_hash_every);
  const std::string hash = hashed ? agreed_state_hash() : "";
  if (is_first()) {
    log_->step({.step = result.step,
                .loss = result.loss,
                .lr = step.lr,
                .grad_norm = result.grad_norm,
                .loss_scale = result.loss_scale,
                .skipped = result.skipped,
                .step_ms = step_ms,
                .throughput = static_cast<double>(num_targets()) / step_ms * 1e3,
                .data_wait_ms = step.data_wait_ms,
                .comm_wait_ms = result.comm_wait_ms,
                .comm_bytes = result.sent_bytes,
                .peak_bytes = result.memory.peak_total,
                .memory = result.memory.peak,
                .state_hash = hash});
  }
  handle_skip(result);
}

// Every rank has the same numbers, so all of them do the same here.
void Trainer::handle_skip(const StepResult& result) {
  const PrecisionSection& precision = options_.config.precision;
  const std::string reason = reason_to_stop(result, precision);
  std::string skip;
  if (result.skipped) {
    const std::int64_t first = (result.step - 1) * options_.config.train.global_batch;
    const auto culprit = engine_->find_non_finite_gradient(
        result,
        [this, first](std::int64_t sample, std::int64_t count) {
          return data_.train->read_train(first + sample, count);
        },
        num_targets());
    skip = describe_skip(result, precision, culprit);
  }
  if (reason.empty() && is_first() && !skip.empty()) log_warning(skip);
  if (reason.empty()) return;
  throw AgreedError(ErrorCode::kRuntime,
                    fmt::format("step {}: {}{}; checkpoints are in {}", result.step, reason,
                                skip.empty() ? "" : "; " + skip, store_.root().string()));
}

void Trainer::evaluate() {
  const auto& train = options_.config.train;
  std::int64_t num_samples = data_.eval->num_samples();
  if (train.eval_batches > 0) num_samples = std::min(num_samples, train.eval_batches * train.global_batch);
  const float loss = engine_->evaluate(
      [this](std::int64_t first, std::int64_t count) { return data_.eval->read_sequential(first, count); },
      num_samples, num_samples * data_.eval->targets_per_sample());
  if (is_first()) log_->eval(engine_->steps_done(), loss);
}

void Trainer::save() {
  RunState state{.step = engine_->steps_done(),
                 .state_hash = agreed_state_hash(),
                 .loss_scale = engine_->loss_scale_state(),
                 .config = options_.config};
  if (log_) {
    state.loss = log_->loss();
    state.eval_loss = log_->eval_loss();
  }
  std::optional<std::filesystem::path> model;
  if (prepared_) {
    state.tokenizer = prepared_->info.tokenizer;
    if (!prepared_->info.tokenizer_model.empty()) model = prepared_->folder / prepared_->info.tokenizer_model;
  }
  const auto folder = save_checkpoint(store_, *engine_, state, model);
  last_saved_step_ = engine_->steps_done();
  if (log_) log_->checkpoint(folder);
}

ExitCode Trainer::end(ExitCode code) {
  read_results(0);
  const std::int64_t step = engine_->steps_done();
  if (last_saved_step_ != step) save();
  const std::string hash = agreed_state_hash();
  if (!is_first()) return code;
  const bool stopped = code == ExitCode::kStopped;
  log_->finish(stopped ? "stopped" : "done", hash);
  log_->line(fmt::format("{} at step {} of {}, state {}; see {}", stopped ? "stopped" : "done", step,
                         num_steps(), hash, out_.summary().string()));
  return code;
}

std::string Trainer::agreed_state_hash() {
  const std::string mine = hash_text(engine_->state_hash());
  const auto hashes = options_.comm->all_gather_strings(mine);
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    throw AgreedError(
        ErrorCode::kRuntime,
        fmt::format("the state after step {} differs between ranks: rank {} has {}, rank 0 has {}: a "
                    "fault of memory or of the network, or different builds; go on from a checkpoint",
                    engine_->steps_done(), rank, hashes[rank], hashes[0]));
  }
  return mine;
}

}  // namespace trireme
