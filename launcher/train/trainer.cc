#include "launcher/train/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "launcher/report/timeline_svg.h"
#include "launcher/report/timeline_trace.h"
#include "launcher/train/agreement.h"
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

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

Trainer::Trainer(TrainingRun run, const StopRequest& stop)
    : run_(std::move(run)),
      stop_(stop),
      lr_(lr_schedule(run_.options.config)),
      verification_(*run_.engine, run_.options.config.checkpoint.verify_every),
      time_limit_(run_.options.config.train.max_minutes),
      step_limit_(learner(run_), Watchdog::Part::kStep, kStepRule),
      evaluation_limit_(learner(run_), Watchdog::Part::kEvaluation, kEvaluationRule),
      checkpoint_limit_(learner(run_), Watchdog::Part::kCheckpoint, kCheckpointRule),
      spikes_(run_.options.config.train.on_spike, run_.comm(),
              {.metrics = run_.out.metrics(), .rollbacks = run_.out.rollbacks()}),
      background_(run_.options.config.checkpoint.background ? std::make_unique<BackgroundSave>(*run_.engine)
                                                            : nullptr) {}

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
    }
    agreed_to_stop();  // there is nothing to stop: for the output folder
    return end(ExitCode::kDone);
  } catch (const AgreedError&) {
    wait_for_save_at_failure();
    throw;
  } catch (const Error& error) {
    // Whatever a check calls it, from step 1 on it is a failure while running. That of a write to a folder
    // that is gone has a reason of its own.
    const bool is_memory = error.code() == ErrorCode::kOutOfMemory;
    const auto loss = run_.watch && !lost_ ? run_.watch->look() : lost_;
    const bool is_reason = loss && error.what() != loss->what;
    throw Error(is_memory ? error.code() : ErrorCode::kRuntime,
                is_reason ? fmt::format("{}: {}", loss->what, error.what()) : error.what(), error.where());
  }
}

// [Note: one exchange a step]
Trainer::JobReport Trainer::exchange_reports(const StepResult& mine) {
  // Before the look: a write that failed for the loss of the folder is then known as that.
  const auto saving = background_ ? background_->progress() : BackgroundSave::Progress::kNone;
  look_at_output();
  const MemoryStats& memory = mine.memory;
  const StepReport report{
      .memory = {.rank = run_.comm().rank(), .peak_bytes = memory.peak_total, .peak = memory.peak},
      .standing = lost_          ? Standing::kOutputLost
                  : is_to_stop() ? Standing::kAskedToStop
                                 : Standing::kGoesOn,
      .clipped = run_.engine->groups().coord()[Axis::kData] == 0 ? mine.clipped : 0,
      .busy_ms = mine.phases ? mine.phases->busy_s() * 1e3 : 0,
      .check = mine.step > 0 ? verification_.look(mine.step) : StateCheck{},
      .saving = saving};
  std::vector<RankMemory> memories;
  std::vector<double> busy_ms;
  std::vector<StateCheck> checks;
  std::vector<BackgroundSave::Progress> savings;
  JobReport all;
  standing_ = Standing::kGoesOn;
  const auto start = Clock::now();
  const std::vector<StepReport> reports = run_.comm().all_gather_value(report);
  all.exchange_s = ms_since(start) / 1e3;
  for (const StepReport& one : reports) {
    memories.push_back(one.memory);
    busy_ms.push_back(one.busy_ms);
    standing_ = std::max(*standing_, one.standing);
    checks.push_back(one.check);
    savings.push_back(one.saving);
    all.clipped += one.clipped;
  }
  all.memory = largest(memories);
  if (mine.phases) all.times = RankTimes(std::move(busy_ms));
  if (mine.step > 0) verification_.judge(mine.step, checks);
  if (background_ && standing_ != Standing::kOutputLost) {
    if (const auto saved = background_->advance(savings)) note_saved(*saved);
  }
  return all;
}

bool Trainer::is_to_stop() {
  if (stop_.requested()) return true;
  const std::int64_t step = run_.engine->steps_done();
  if (step == run_.resumed.step) return false;  // slices that are too short get on, too
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

// [Note: a lost output folder]
void Trainer::look_at_output() {
  if (!run_.watch || lost_) return;
  lost_ = run_.watch->look();
  if (!lost_) return;
  if (!lost_->refuge) throw Error(ErrorCode::kRuntime, lost_->what);
  run_.store = CheckpointStore(OutputFolder{*lost_->refuge}.checkpoints());
}

void Trainer::leave_output() {
  if (background_) background_->discard();
  read_results(0);
  save(Evaluation::kNone, Saving::kAtOnce);  // again, if it was: that one may be gone with the folder
  const OutputWatch::Loss loss = lost_ ? *lost_ : OutputWatch::Loss{.what = "the output folder is lost"};
  const std::string message = fmt::format("{}; {}: {}", loss.what, describe_checkpoints(), loss.advice);
  throw AgreedError(ErrorCode::kRuntime, run_.comm().size() > 1 ? naming_rank(0, message) : message);
}

void Trainer::step() {
  std::optional<StepTrace> trace;
  if (run_.options.config.log.trace_step.has(run_.engine->steps_done() + 1)) trace.emplace(*run_.engine);
  const auto start = Clock::now();
  const double lr = lr_.at(run_.engine->steps_done());
  const std::int64_t targets = num_targets(run_.engine->steps_done());
  {
    // A traced step takes longer than what was learned from others.
    const auto tight = step_limit_.scope(trace ? PartLimit::Held::kNo : PartLimit::Held::kYes);
    run_.engine->enqueue_step(run_.batches->source(), targets, lr);
  }
  if (trace) run_.engine->context().backend->synchronize(run_.engine->context().exec);
  unread_.push_back({.lr = lr, .enqueue_ms = ms_since(start), .data_wait_ms = run_.batches->take_wait_ms()});
  after_trace_ = trace.has_value();
  if (trace) write_trace(*trace);  // which is no part of the step
  trace.reset();

  const auto& config = run_.options.config;
  const std::int64_t step = run_.engine->steps_done();
  const bool last = step == run_.num_steps();
  const bool evaluates = run_.data.eval && (last || is_due(step, config.train.eval_every));
  const bool saves = last || is_due(step, config.checkpoint.every);
  // What stands between two steps wants the results of all steps before it. A device that has finished when
  // the call returns is read at once: it costs nothing, and a skipped step is then explained exactly.
  const bool waits = evaluates || saves || is_due(step, config.log.state_hash_every) ||
                     verification_.is_due(step) || config.train.on_spike == OnSpike::kSkip ||
                     !run_.engine->is_asynchronous();
  read_results(waits ? 0 : 1);
  // The checkpoint first: an evaluation may fail, and what was trained stands.
  if (saves) {
    save(evaluates ? Evaluation::kToCome : Evaluation::kNone, last ? Saving::kAtOnce : Saving::kAsTheJobSays);
  }
  if (evaluates) evaluate();
  if (saves || evaluates) standing_.reset();  // that took a while: the ranks are asked again
}

std::int64_t Trainer::num_targets(std::int64_t steps_done) const {
  const std::int64_t global_batch = run_.options.config.train.global_batch;
  return run_.data.train->num_train_targets(steps_done * global_batch, global_batch);
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

void Trainer::read_results(std::size_t left) {
  while (run_.engine->num_pending() > left) read_result();
}

std::pair<StepResult, Trainer::JobReport> Trainer::collect_and_exchange() {
  // Looking at all of the state, and the writing of a trace for which others wait here, take longer than what
  // was learned from other steps.
  const bool is_longer = verification_.is_due(run_.engine->steps_done()) || after_trace_;
  const auto tight = step_limit_.scope(is_longer ? PartLimit::Held::kNo : PartLimit::Held::kYes);
  StepResult result = run_.engine->collect();
  JobReport all = exchange_reports(result);
  return {std::move(result), std::move(all)};
}

void Trainer::read_result() {
  const Watchdog::Scope watch = run_.watched("the reading of a step's results");
  const auto start = Clock::now();
  const auto [result, all] = collect_and_exchange();
  const UnreadStep step = unread_.front();
  unread_.pop_front();
  // Parameters that are still under way hold up this exchange: they are a part of the step.
  const double step_ms = step.enqueue_ms + ms_since(start);
  step_limit_.add(step_ms / 1e3);
  const std::int64_t elems_per_step =
      run_.options.config.train.global_batch * run_.data.train->targets_per_sample();
  // A device may have had work while its host waited.
  const double data_wait_s =
      run_.engine->is_asynchronous() && result.phases ? result.phases->data_wait_s : step.data_wait_ms / 1e3;
  const bool hashed = is_due(result.step, run_.options.config.log.state_hash_every);
  const std::string hash = hashed ? run_.agreed_state_hash() : "";
  if (run_.is_first()) {
    run_.log->step(
        {.step = result.step,
         .loss = result.loss,
         .lr = step.lr,
         .grad_norm = result.grad_norm,
         .loss_scale = result.loss_scale,
         .skipped = result.skipped,
         .fp8_clipped = run_.engine_options.precision.has_fp8_products() ? std::optional<int>(all.clipped)
                                                                         : std::nullopt,
         .step_ms = step_ms,
         .throughput = static_cast<double>(elems_per_step) / step_ms * 1e3,
         .data_wait_ms = step.data_wait_ms,
         .comm_wait_ms = result.comm_wait_ms,
         .phases =
             phases_of_step(result.phases, data_wait_s, all.exchange_s, std::exchange(checkpoint_s_, 0)),
         .rank_times = all.times,
         .flops_per_s = run_.step_flops / step_ms * 1e3,
         .mfu = run_.peak_flops > 0 ? std::optional(run_.step_flops / step_ms * 1e3 / run_.peak_flops)
                                    : std::nullopt,
         .comm_bytes = result.sent_bytes,
         .memory = all.memory,
         .state_hash = hash});
  }
  handle_skip(result);
  handle_spike(result);
}

// Every rank has the same numbers, so all of them do the same here.
void Trainer::handle_skip(const StepResult& result) {
  if (result.left_out()) return;  // a spike
  const PrecisionSection& precision = run_.options.config.precision;
  const std::string reason = reason_to_stop(result, precision);
  std::string skip;
  if (result.skipped) {
    const std::int64_t first = (result.step - 1) * run_.options.config.train.global_batch;
    const auto culprit = run_.engine->find_non_finite_gradient(
        result,
        [this, first](std::int64_t sample, std::int64_t count) {
          return run_.data.train->read_train(first + sample, count);
        },
        num_targets(result.step - 1));
    skip = describe_skip(result, precision, culprit);
  }
  if (reason.empty() && run_.is_first() && !skip.empty()) log_warning(skip);
  if (reason.empty()) return;
  verification_.verify_now();  // the reason may be that a bit flipped
  wait_for_save_at_failure();
  throw AgreedError(ErrorCode::kRuntime,
                    fmt::format("step {}: {}{}; {}", result.step, reason, skip.empty() ? "" : "; " + skip,
                                describe_checkpoints()));
}

void Trainer::handle_spike(const StepResult& result) {
  const SpikeWatch::Finding spike = spikes_.look(result);
  if (spike.text.empty()) return;
  if (spike.left_out) verification_.verify_now();  // it may be that a bit flipped
  if (!spike.rolls_back) {
    const std::string what =
        spike.left_out ? "; it is left out: no update (train.on_spike)"
        : spike.is_taken
            ? fmt::format("; it is taken, as {} in a row before it were left out", SpikeWatch::kMostLeftOut)
        : spike.came_again ? "; it came again after a rollback"
                           : "";
    if (run_.is_first()) log_warning(spike.text + what);
    return;
  }
  verification_.verify_now();  // it may be that a bit flipped, and a rank be known
  wait_for_save_at_failure();
  run_stage(run_.comm(), [&] {
    if (run_.is_first()) spikes_.remember(result);
  });
  throw AgreedError(
      ErrorCode::kRuntime,
      fmt::format("{}: rolled back (train.on_spike); {}; the same command goes on from there, and "
                  "passes the step if the spike comes again",
                  spike.text, describe_checkpoints()));
}

// A folder is named where there is something in it.
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
  const auto start = Clock::now();
  const EvalMetrics metrics = [&] {
    const auto tight = evaluation_limit_.scope();
    return trireme::evaluate(*run_.engine, evaluation);
  }();
  evaluation_limit_.add(ms_since(start) / 1e3);
  report_left_out();
  if (!run_.is_first()) return;
  const std::int64_t step = run_.engine->steps_done();
  run_.log->eval(step, metrics, ms_since(start) / 1e3);
  if (background_ && background_->is_of(step)) return background_->note_evaluation(metrics.loss);
  if (run_.last_saved_step == step) note_evaluation(run_.store.folder_of(step), metrics.loss);
}

// Of a checkpoint that was saved when its evaluation was still to come.
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
  const RunState state = state_to_save(run_, evaluation == Evaluation::kToCome);
  const auto model = tokenizer_model(run_);
  if (background_ && saving == Saving::kAsTheJobSays) {
    background_->start(run_.store, state, model, start);
    checkpoint_s_ += ms_since(start) / 1e3;
    return;
  }
  const auto write_start = Clock::now();
  const auto folder = [&] {
    // Beside others in the background there are few like it to learn from.
    const auto tight = checkpoint_limit_.scope(background_ ? PartLimit::Held::kNo : PartLimit::Held::kYes);
    return save_checkpoint(run_.store, *run_.engine, state, model);
  }();
  checkpoint_limit_.add(ms_since(write_start) / 1e3);
  const double seconds = ms_since(start) / 1e3;
  checkpoint_s_ += seconds;
  note_saved({.step = run_.engine->steps_done(), .folder = folder, .stall_s = seconds, .seconds = seconds});
}

void Trainer::note_saved(const BackgroundSave::Saved& saved) {
  run_.last_saved_step = saved.step;
  time_limit_.saved(TimeLimit::Seconds(saved.seconds));
  if (run_.log) run_.log->checkpoint(saved.folder, saved.step, saved.stall_s);
}

void Trainer::wait_for_save() {
  if (!background_) return;
  const Watchdog::Scope watch = run_.watched("the writing of a checkpoint in the background");
  if (const auto saved = background_->finish()) note_saved(*saved);
}

void Trainer::wait_for_save_at_failure() {
  try {
    wait_for_save();
  } catch (const AgreedError& error) {
    if (run_.is_first()) log_error(error.what());
  }
}

ExitCode Trainer::end(ExitCode code) {
  read_results(0);
  const std::int64_t step = run_.engine->steps_done();
  const Watchdog::Scope watch = run_.watched(fmt::format("the end of the run after step {}", step));
  wait_for_save();
  if (run_.last_saved_step != step) save(Evaluation::kNone, Saving::kAtOnce);
  const std::string hash = run_.agreed_state_hash();
  if (!run_.is_first()) return code;
  const Watchdog::Scope last = run_.watched("the writing of summary.json");
  const bool stopped = code == ExitCode::kStopped;
  run_.log->finish(stopped ? "stopped" : "done", hash);
  run_.log->line(fmt::format("{} at step {} of {}, state {}; see {}", stopped ? "stopped" : "done", step,
                             run_.num_steps(), hash, run_.out.summary().string()));
  look_at_output();
  if (lost_) throw Error(ErrorCode::kRuntime, lost_->what);
  const std::filesystem::path manifest = run_.store.folder_of(step) / Manifest::kFileName;
  TRIREME_CHECK(exists(manifest), "the last checkpoint, {}, is gone: was it removed while the run wrote it?",
                manifest.parent_path().string());
  return code;
}

}  // namespace trireme
