#include "launcher/train/trainer.h"

#include <fmt/ranges.h>

#include <chrono>
#include <optional>
#include <utility>

#include "launcher/families/model_family.h"
#include "launcher/host/agreement.h"
#include "launcher/host/elapsed.h"
#include "launcher/render/timeline_svg.h"
#include "launcher/render/timeline_trace.h"
#include "launcher/report/class_report.h"
#include "launcher/train/evaluation.h"
#include "launcher/train/skipped_steps.h"
#include "launcher/train/state_to_save.h"
#include "parallel/run/step_trace.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// Null: limits are not learned.
Watchdog* learner(const TrainingRun& run) {
  return run.options.config.parallel.timeout_s.learned ? run.options.watchdog : nullptr;
}

}  // namespace

Trainer::Trainer(TrainingRun run, const StopRequest& stop)
    : run_(std::move(run)),
      stop_(stop),
      lr_(lr_schedule(run_.options.config)),
      peak_(run_.peak_flops),
      verification_(*run_.engine, run_.options.config.checkpoint.verify_every),
      time_limit_(run_.options.config.train.max_minutes),
      step_limit_(learner(run_), Watchdog::Part::kStep, kStepRule),
      evaluation_limit_(learner(run_), Watchdog::Part::kEvaluation, kEvaluationRule),
      checkpoint_limit_(learner(run_), Watchdog::Part::kCheckpoint, kCheckpointRule),
      spikes_(run_.options.config.train.on_spike, run_.comm(), run_.out.rollbacks(),
              run_.resumed.spikes.value_or(SpikeState{})),
      checkpoint_(*run_.engine),
      partner_(run_.partner ? std::make_unique<PartnerCopy>(*run_.engine, run_.partner->ring) : nullptr) {}

ExitCode Trainer::run() {
  try {
    if (run_.is_first() && !spikes_.rolled_back().empty()) {
      run_.log->line(fmt::format("train.on_spike: spikes that come again are passed; rolled back at step {}",
                                 fmt::join(spikes_.rolled_back(), ", ")));
    }
    if (run_.options.config.train.on_spike == OnSpike::kSkip) {
      run_.engine->leave_out_steps(
          [this](float loss, float grad_norm) { return spikes_.leaves_out(loss, grad_norm); });
    }
    make_up_for_evaluation();
    while (run_.engine->steps_done() < run_.num_steps()) {
      if (agreed_to_stop()) return end(ExitCode::kStopped);
      run_.with_memory_advice([this] { step(); });
      if (run_.options.hooks.after_step) run_.options.hooks.after_step();
    }
    agreed_to_stop();  // only checks the output folder
    const ExitCode code = end(ExitCode::kDone);
    remove_partner_copies(run_);
    return code;
  } catch (const AgreedError&) {
    wait_for_save_at_failure();
    throw;
  } catch (const Error& error) {
    // After the start, input errors of checks are runtime failures. A failed write to a lost folder has the
    // loss as its cause.
    const bool is_memory = error.code() == ErrorCode::kOutOfMemory;
    const auto loss = run_.watch && !lost_ ? run_.watch->look() : lost_;
    const bool is_reason = loss && error.what() != loss->what;
    throw error.saying(is_memory ? error.code() : ErrorCode::kRuntime,
                       is_reason ? fmt::format("{}: {}", loss->what, error.what()) : error.what());
  }
}

std::unique_ptr<Engine> Trainer::take_engine() {
  if (run_.options.config.train.on_spike == OnSpike::kSkip) run_.engine->leave_out_steps({});
  return std::move(run_.engine);
}

bool Trainer::is_to_stop() {
  if (stop_.requested()) return true;
  const std::int64_t step = run_.engine->steps_done();
  if (step == run_.resumed.step) return false;  // time slices that are too short must still make progress
  if (step == run_.num_steps()) return false;
  if (!run_.is_first() || !time_limit_.is_up(Clock::now() - run_.options.start)) return false;
  run_.log->line(fmt::format("train.max_minutes = {}: time for a last checkpoint",
                             run_.options.config.train.max_minutes));
  return true;
}

bool Trainer::agreed_to_stop() {
  const std::int64_t step = run_.engine->steps_done();
  const Watchdog::Scope watch =
      run_.watched(fmt::format("the pause between steps {} and {}", step, step + 1));
  if (!standing_) exchange_reports({});
  const Standing standing = *std::exchange(standing_, std::nullopt);
  if (standing == Standing::kOutputLost) leave_output();
  return standing == Standing::kAskedToStop;
}

// Implements [Note: a lost output folder].
void Trainer::look_at_output() {
  if (!run_.watch || lost_) return;
  lost_ = run_.watch->look();
  if (!lost_) return;
  if (!lost_->refuge) throw Error(ErrorCode::kRuntime, lost_->what);
  run_.store = CheckpointStore(OutputFolder{*lost_->refuge}.checkpoints());
}

void Trainer::leave_output() {
  checkpoint_.discard();
  read_results(0);
  // Also if it was saved before: that checkpoint may be lost with the folder.
  save(Evaluation::kNone, Saving::kAtOnce);
  const OutputWatch::Loss loss = lost_ ? *lost_ : OutputWatch::Loss{.what = "the output folder is lost"};
  const std::string message = fmt::format("{}; {}: {}", loss.what, describe_checkpoints(), loss.advice);
  throw AgreedError(Error(ErrorCode::kRuntime, run_.comm().size() > 1 ? naming_rank(0, message) : message)
                        .about({.file = run_.out.root.string(), .rank = 0}));
}

void Trainer::step() {
  std::optional<StepTrace> trace;
  if (run_.options.config.log.trace_step.has(run_.engine->steps_done() + 1)) trace.emplace(*run_.engine);
  step_clock_.begin(Clock::now());
  const double lr = lr_.at(run_.engine->steps_done());
  const std::int64_t targets = num_targets(run_.engine->steps_done());
  {
    // A traced step takes longer than the learned limit expects.
    const auto tight = step_limit_.scope(trace ? PartLimit::Held::kNo : PartLimit::Held::kYes);
    run_.engine->enqueue_step(run_.batches->source(), targets, lr);
  }
  if (trace) run_.engine->context().backend->synchronize(run_.engine->context().exec);
  unread_.push_back({.lr = lr, .data_wait_ms = run_.batches->take_wait_ms()});
  after_trace_ = trace.has_value();
  if (trace) {
    const auto start = Clock::now();
    write_trace(*trace);
    step_clock_.exclude(Clock::now() - start);
  }
  trace.reset();

  const auto& config = run_.options.config;
  const std::int64_t step = run_.engine->steps_done();
  const bool last = step == run_.num_steps();
  const bool evaluates = run_.data.eval && (last || is_due(step, config.train.eval_every));
  const bool saves = last || is_due(step, config.checkpoint.every);
  // Work between two steps needs the results of all steps before it. A synchronous device is read at once:
  // this costs nothing, and a skipped step is then reported exactly.
  const bool waits = evaluates || saves || is_due(step, config.log.state_hash_every) ||
                     verification_.is_due(step) || config.train.on_spike == OnSpike::kSkip ||
                     !run_.engine->is_asynchronous();
  read_results(waits ? 0 : 1);
  // The checkpoint first: an evaluation may fail without losing training.
  if (saves) {
    save(evaluates ? Evaluation::kToCome : Evaluation::kNone, last ? Saving::kAtOnce : Saving::kAsTheJobSays);
  }
  if (evaluates) evaluate();
  if (saves || evaluates) standing_.reset();  // that took long: ask the ranks again
}

std::int64_t Trainer::num_targets(std::int64_t steps_done) const {
  return run_.data.train->num_train_targets(run_.sample_at(steps_done),
                                            run_.options.config.train.global_batch);
}

void Trainer::write_trace(const StepTrace& trace) const {
  const Timeline timeline = trace.gather();
  if (!run_.is_first()) return;
  const std::int64_t step = run_.engine->steps_done();
  const auto of_step =
      run_.options.config.log.trace_step.is_one() ? std::nullopt : std::optional<std::int64_t>(step);
  write_text_file(run_.out.trace_json(of_step), to_chrome_trace(timeline));
  write_text_file(run_.out.trace_svg(of_step),
                  to_svg(merge_neighbours(timeline), fmt::format("Step {}", step),
                         fmt::format("Measured on {} rank(s), {} thread(s) each", timeline.num_ranks,
                                     run_.engine_options.threads)));
}

// Names the folder only if it has a checkpoint.
std::string Trainer::describe_checkpoints() const {
  if (run_.last_saved_step >= 0) {
    return fmt::format("the newest checkpoint is of step {}, in {}", run_.last_saved_step,
                       run_.store.root().string());
  }
  const std::string start =
      run_.resume_folder.empty() ? "" : fmt::format(" since {}", run_.resume_folder.string());
  return fmt::format("no checkpoint was saved{}: checkpoint.every says how often that happens", start);
}

void Trainer::evaluate() {
  const Watchdog::Scope watch =
      run_.watched(fmt::format("the evaluation after step {}", run_.engine->steps_done()));
  EvaluationOptions evaluation = evaluation_of(run_.options.config, run_.data.eval);
  evaluation.workers = num_data_workers(run_.options.config, run_.engine_options.threads);
  if (run_.engine->parameters().has_averages()) evaluation.weights = Weights::kAverages;
  ClassPredictions predictions;
  const std::int64_t classes = run_.options.config.model.classes;
  const bool has_picture = counts_classes(run_.options.config.model) && classes <= kMostPicturedClasses;
  if (has_picture) evaluation.predictions = &predictions;
  std::optional<DetectionResults> detections;
  if (run_.data.eval_set) detections.emplace(run_.data.eval_set, evaluation.num_samples);
  if (detections) evaluation.detections = &*detections;
  const auto start = Clock::now();
  const EvalMetrics metrics = [&] {
    const auto tight = evaluation_limit_.scope();
    return trireme::evaluate(*run_.engine, evaluation);
  }();
  evaluation_limit_.add(ms_since(start) / 1e3);
  report_left_out();
  const auto all =
      has_picture ? predictions.gather(run_.engine->communicator()) : std::vector<ClassPrediction>();
  if (!run_.is_first()) return;
  if (!all.empty()) {
    write_text_file(run_.out.root / kConfusionPicture,
                    to_svg(ClassReport{ConfusionMatrix(all, classes), run_.record.class_names}));
  }
  const std::int64_t step = run_.engine->steps_done();
  run_.log->eval(step, metrics, ms_since(start) / 1e3);
  if (checkpoint_.is_of(step)) return checkpoint_.note_evaluation(metrics.loss);
  if (run_.last_saved_step == step) note_evaluation(run_.store.folder_of(step), metrics.loss);
}

// For a checkpoint saved before its evaluation.
void Trainer::make_up_for_evaluation() {
  if (!run_.resumed.evaluation_due) return;
  const std::int64_t step = run_.engine->steps_done();
  if (run_.data.eval) return evaluate();
  if (run_.is_first())
    run_.log->line(fmt::format("step {} was not evaluated, and data.eval is empty now", step));
}

void Trainer::report_left_out() {
  left_out_.gather(run_.comm(), {run_.data.train.get(), run_.data.eval.get()});
  if (run_.log) run_.log->left_out(left_out_.count());
}

void Trainer::save(Evaluation evaluation, Saving saving) {
  const Watchdog::Scope watch =
      run_.watched(fmt::format("the checkpoint of step {}", run_.engine->steps_done()));
  const auto start = Clock::now();
  wait_for_save();
  report_left_out();
  look_at_output();
  verification_.verify_now();
  RunState state = state_to_save(run_, evaluation == Evaluation::kToCome);
  state.spikes = spikes_.state();
  const auto model = tokenizer_model(run_);
  const bool in_background = run_.options.config.checkpoint.background;
  const CheckpointSave::Job job{
      .store = run_.store, .state = state, .tokenizer_model = model, .began = start};
  if (in_background && saving == Saving::kAsTheJobSays) {
    checkpoint_.start(job);
    if (partner_) partner_->start(state, model);
    checkpoint_s_ += ms_since(start) / 1e3;
    return;
  }
  copy_to_partner(state, saving);
  const auto write_start = Clock::now();
  const auto saved = [&] {
    // With background saves, too few foreground saves are seen to learn from.
    const auto tight = checkpoint_limit_.scope(in_background ? PartLimit::Held::kNo : PartLimit::Held::kYes);
    return save_at_once(job);
  }();
  checkpoint_limit_.add(ms_since(write_start) / 1e3);
  checkpoint_s_ += saved.seconds;
  note_saved(saved);
}

CheckpointSave::Saved Trainer::save_at_once(const CheckpointSave::Job& job) {
  try {
    return checkpoint_.save(job);
  } catch (const AgreedError& error) {
    const auto loss = run_.watch && !lost_ ? run_.watch->look() : lost_;
    const std::string cause = text_of_rank(run_.comm(), 0, loss ? loss->what : "");
    throw cause.empty() ? error : AgreedError(error.saying(fmt::format("{}: {}", cause, error.what())));
  }
}

// Runs before the save to the file system, which may be why the run stops. A finished run needs no copy.
void Trainer::copy_to_partner(const RunState& state, Saving saving) {
  if (!partner_ || run_.engine->steps_done() == run_.num_steps()) return;
  run_.engine->snapshot()->take();
  partner_->start(state, tokenizer_model(run_));
  if (saving != Saving::kAtOnce) return;
  if (const auto copied = partner_->finish()) note_copied(*copied);
}

void Trainer::note_copied(const PartnerCopy::Copied& copied) {
  if (!run_.log || std::exchange(has_said_copied_, true)) return;
  run_.log->line(
      fmt::format("checkpoint.partner: step {} is in memory, {} of rank 0 and its partner, after {:.1f} s",
                  copied.step, format_bytes(copied.bytes), copied.seconds));
}

void Trainer::note_saved(const CheckpointSave::Saved& saved) {
  run_.last_saved_step = saved.step;
  time_limit_.saved(TimeLimit::Seconds(saved.seconds));
  if (run_.log) run_.log->checkpoint(saved.folder, saved.step, saved.stall_s);
}

void Trainer::wait_for_save() {
  if (partner_) {
    const Watchdog::Scope watch = run_.watched("the copying of a checkpoint to the memory of partners");
    if (const auto copied = partner_->finish()) note_copied(*copied);
  }
  const Watchdog::Scope watch = run_.watched("the writing of a checkpoint in the background");
  if (const auto saved = checkpoint_.finish()) note_saved(*saved);
}

void Trainer::wait_for_save_at_failure() {
  try {
    wait_for_save();
  } catch (const AgreedError& error) {
    if (run_.is_first()) log_error(one_line(error));
  }
}

ExitCode Trainer::end(ExitCode code) {
  read_results(0);
  const std::int64_t step = run_.engine->steps_done();
  const Watchdog::Scope watch = run_.watched(fmt::format("the end of the run after step {}", step));
  wait_for_save();
  if (run_.last_saved_step != step) save(Evaluation::kNone, Saving::kAtOnce);
  const std::string hash = run_.agreed_state_hash();
  // The same on every rank.
  const LossScaleState scale = run_.engine->loss_scale_state();
  const bool learned_nothing = code == ExitCode::kDone && scale.updates == 0;
  const std::string failure =
      learned_nothing ? describe_no_update(step, scale, run_.options.config.precision) : "";
  if (run_.is_first()) finish_log(code, hash, scale.updates, failure);
  if (!failure.empty()) throw AgreedError(ErrorCode::kNoProgress, failure);
  return code;
}

void Trainer::finish_log(ExitCode code, const std::string& hash, std::int64_t updates,
                         const std::string& failure) {
  const Watchdog::Scope last = run_.watched("the writing of summary.json");
  const std::int64_t step = run_.engine->steps_done();
  const std::string status = !failure.empty() ? "failed" : code == ExitCode::kStopped ? "stopped" : "done";
  run_.log->finish(status, hash, updates);
  run_.log->line(fmt::format("{} at step {} of {}{}, state {}; see {}", status, step, run_.num_steps(),
                             describe_updates(step, updates), hash, run_.out.summary().string()));
  look_at_output();
  if (lost_) throw Error(ErrorCode::kRuntime, lost_->what);
  const std::filesystem::path manifest = run_.store.folder_of(step) / Manifest::kFileName;
  TRIREME_CHECK(exists(manifest), "the last checkpoint, {}, is gone: was it removed while the run wrote it?",
                manifest.parent_path().string());
}

}  // namespace trireme
