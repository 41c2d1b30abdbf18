#include "launcher/train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "launcher/families/model_family.h"
#include "launcher/host/machine.h"
#include "launcher/report/field_keys.h"
#include "launcher/report/timeline_svg.h"
#include "launcher/report/timeline_trace.h"
#include "launcher/train/agreement.h"
#include "launcher/train/evaluation.h"
#include "launcher/train/skipped_steps.h"
#include "parallel/run/checkpoint_state.h"
#include "parallel/run/step_trace.h"
#include "runtime/base/log.h"
#include "runtime/data/class_names.h"
#include "runtime/data/spread_samples.h"

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
  engine_options_ = engine_options(options_.config, *options_.blocks);
  engine_options_.device = options_.device;
  const CoreCounts cores = count_cores();
  if (options_.config.parallel.threads == 0) {
    engine_options_.threads = threads_per_rank(cores, options_.launch.num_local_ranks);
    const std::string idle = describe_idle_cores(cores, options_.launch.num_local_ranks);
    if (!idle.empty() && is_first()) log_warning(idle);
  } else if (!options_.config.parallel.oversubscribe) {
    const std::string shared =
        describe_shared_cores(cores, options_.launch.num_local_ranks, engine_options_.threads);
    if (!shared.empty() && is_first()) log_warning(shared);
  }
}

Trainer::~Trainer() = default;

ExitCode Trainer::run(const StopRequest& stop) {
  stop_ = &stop;
  Communicator& comm = *options_.comm;
  {
    const Watchdog::Scope watch = watched("the checks before the first step");
    run_stage(comm, [this] { check_job(); });
    check_same_data(comm, data_.fingerprint);
  }
  {
    const Watchdog::Scope watch = watched("the choice of a checkpoint");
    choose_resume();
    run_stage(comm, [this] { read_resumed(); });
    run_stage(comm, [this] { claim_output(); });
  }
  {
    const Watchdog::Scope watch = watched("the making of the engine");
    run_stage(comm, [this] { with_memory_advice([this] { build_engine(); }); });
  }
  restore();
  {
    const Watchdog::Scope watch = watched("the opening of the log");
    run_stage(comm, [this] { open_log(); });
  }
  try {
    make_up_for_evaluation();
    while (engine_->steps_done() < num_steps()) {
      if (agreed_to_stop()) return end(ExitCode::kStopped);
      with_memory_advice([this] { step(); });
    }
    agreed_to_stop();  // there is nothing to stop: for the output folder
    return end(ExitCode::kDone);
  } catch (const AgreedError&) {
    throw;
  } catch (const Error& error) {
    // Whatever a check calls it, from step 1 on it is a failure while running. That of a write to a folder
    // that is gone has a reason of its own.
    const bool is_memory = error.code() == ErrorCode::kOutOfMemory;
    const auto loss = watch_ && !lost_ ? watch_->look() : lost_;
    const bool is_reason = loss && error.what() != loss->what;
    throw Error(is_memory ? error.code() : ErrorCode::kRuntime,
                is_reason ? fmt::format("{}: {}", loss->what, error.what()) : error.what(), error.where());
  }
}

// [Note: one exchange a step]
RankMemory Trainer::exchange_reports(const MemoryStats& mine) {
  look_at_output();
  const StepReport report{
      .memory = {.rank = options_.comm->rank(), .peak_bytes = mine.peak_total, .peak = mine.peak},
      .standing = lost_                ? Standing::kOutputLost
                  : stop_->requested() ? Standing::kAskedToStop
                                       : Standing::kGoesOn};
  std::vector<RankMemory> memories;
  standing_ = Standing::kGoesOn;
  for (const StepReport& one : options_.comm->all_gather_value(report)) {
    memories.push_back(one.memory);
    standing_ = std::max(*standing_, one.standing);
  }
  return largest(memories);
}

bool Trainer::agreed_to_stop() {
  const std::int64_t step = engine_->steps_done();
  const Watchdog::Scope watch = watched(fmt::format("the pause between steps {} and {}", step, step + 1));
  if (!standing_) exchange_reports({});
  const Standing standing = *std::exchange(standing_, std::nullopt);
  if (standing == Standing::kOutputLost) leave_output();
  return standing == Standing::kAskedToStop;
}

// [Note: a lost output folder]
void Trainer::look_at_output() {
  if (!watch_ || lost_) return;
  lost_ = watch_->look();
  if (!lost_) return;
  if (!lost_->refuge) throw Error(ErrorCode::kRuntime, lost_->what);
  store_ = CheckpointStore(OutputFolder{*lost_->refuge}.checkpoints());
}

void Trainer::leave_output() {
  read_results(0);
  save(Evaluation::kNone);  // again, if it was: that one may be gone with the folder
  const OutputWatch::Loss loss = lost_ ? *lost_ : OutputWatch::Loss{.what = "the output folder is lost"};
  const std::string message = fmt::format("{}; {}: {}", loss.what, describe_checkpoints(), loss.advice);
  throw AgreedError(ErrorCode::kRuntime, options_.comm->size() > 1 ? naming_rank(0, message) : message);
}

// Only a job's own keys are missing from the message of an allocator.
void Trainer::with_memory_advice(const std::function<void()>& stage) const {
  try {
    stage();
  } catch (const AgreedError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    throw Error(
        error.code(),
        fmt::format(
            "{}; a step needs {}: {}", error.what(), format_bytes(prediction_.memory.peak_total),
            describe(advise(prediction_.memory.at_peak, engine_options(options_.config, *options_.blocks)),
                     batch_layout(options_.config, options_.comm->size()).data_ranks)),
        error.where());
  }
}

void Trainer::step() {
  const auto start = Clock::now();
  const double lr = lr_.at(engine_->steps_done());
  const bool traced = engine_->steps_done() + 1 == options_.config.log.trace_step;
  if (traced) {
    traced_step(lr);
  } else {
    engine_->enqueue_step(batches_->source(), num_targets(), lr);
  }
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
  // The checkpoint first: an evaluation may fail, and what was trained stands.
  if (saves) save(evaluates ? Evaluation::kToCome : Evaluation::kNone);
  if (evaluates) evaluate();
  if (saves || evaluates) standing_.reset();  // that took a while: the ranks are asked again
}

void Trainer::traced_step(double lr) {
  const StepTrace trace(*engine_);
  engine_->enqueue_step(batches_->source(), num_targets(), lr);
  const Timeline timeline = trace.gather();
  if (!is_first()) return;
  write_text_file(out_.trace_json(), to_chrome_trace(timeline));
  write_text_file(out_.trace_svg(),
                  to_svg(merge_neighbours(timeline), fmt::format("Step {}", engine_->steps_done()),
                         fmt::format("Measured on {} rank(s), {} thread(s) each", timeline.num_ranks,
                                     engine_options_.threads)));
}

void Trainer::read_results(std::size_t left) {
  while (engine_->num_pending() > left) read_result();
}

void Trainer::read_result() {
  const Watchdog::Scope watch = watched("the reading of a step's results");
  const auto start = Clock::now();
  const StepResult result = engine_->collect();
  const UnreadStep step = unread_.front();
  unread_.pop_front();
  const RankMemory memory = exchange_reports(result.memory);
  // Parameters that are still under way hold up this exchange: they are a part of the step.
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
                .memory = memory,
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
                    fmt::format("step {}: {}{}; {}", result.step, reason, skip.empty() ? "" : "; " + skip,
                                describe_checkpoints()));
}

// A folder is named where there is something in it.
std::string Trainer::describe_checkpoints() const {
  if (last_saved_step_ >= 0) {
    return fmt::format("the newest checkpoint is of step {}, in {}", last_saved_step_,
                       store_.root().string());
  }
  const std::string start = resume_folder_.empty() ? "" : fmt::format(" since {}", resume_folder_.string());
  return fmt::format("no checkpoint was saved{}: checkpoint.every says how often that happens", start);
}

void Trainer::evaluate() {
  const Watchdog::Scope watch = watched(fmt::format("the evaluation after step {}", engine_->steps_done()));
  const auto& train = options_.config.train;
  std::int64_t num_samples = data_.eval->num_samples();
  if (train.eval_batches > 0) num_samples = std::min(num_samples, train.eval_batches * train.global_batch);
  const ModelFamily& family = family_of(options_.config.model);
  const bool spreads = family.data.in_order_of_classes && num_samples < data_.eval->num_samples();
  const EvalMetrics metrics = trireme::evaluate(
      *engine_,
      {.dataset = spreads ? std::make_shared<const SpreadSamples>(data_.eval, num_samples) : data_.eval,
       .num_samples = num_samples,
       .workers = num_data_workers(options_.config, engine_options_.threads),
       .counts_top_k = family.has_class_logits});
  report_left_out();
  if (!is_first()) return;
  const std::int64_t step = engine_->steps_done();
  log_->eval(step, metrics);
  if (last_saved_step_ == step) note_evaluation(store_.folder_of(step), metrics.loss);
}

// Of a checkpoint that was saved when its evaluation was still to come.
void Trainer::make_up_for_evaluation() {
  if (!resumed_.evaluation_due) return;
  const std::int64_t step = engine_->steps_done();
  if (data_.eval) return evaluate();
  if (is_first()) log_->line(fmt::format("step {} was not evaluated, and data.eval is empty now", step));
}

void Trainer::report_left_out() {
  left_out_.gather(*options_.comm, {data_.train.get(), data_.eval.get()});
  if (log_) log_->left_out(left_out_.count());
}

void Trainer::save(Evaluation evaluation) {
  const Watchdog::Scope watch = watched(fmt::format("the checkpoint of step {}", engine_->steps_done()));
  report_left_out();
  look_at_output();
  RunState state{.step = engine_->steps_done(),
                 .evaluation_due = evaluation == Evaluation::kToCome,
                 .state_hash = agreed_state_hash(),
                 .loss_scale = engine_->loss_scale_state(),
                 .config = options_.config,
                 .arithmetic = options_.arithmetic,
                 .class_names = resumed_.class_names};
  if (data_.train_images && !data_.train_images->class_names().empty()) {
    state.class_names = as_utf8(data_.train_images->class_names());
  }
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
  const Watchdog::Scope watch = watched(fmt::format("the end of the run after step {}", step));
  if (last_saved_step_ != step) save(Evaluation::kNone);
  const std::string hash = agreed_state_hash();
  if (!is_first()) return code;
  const Watchdog::Scope last = watched("the writing of summary.json");
  const bool stopped = code == ExitCode::kStopped;
  log_->finish(stopped ? "stopped" : "done", hash);
  log_->line(fmt::format("{} at step {} of {}, state {}; see {}", stopped ? "stopped" : "done", step,
                         num_steps(), hash, out_.summary().string()));
  look_at_output();
  if (lost_) throw Error(ErrorCode::kRuntime, lost_->what);
  const std::filesystem::path manifest = store_.folder_of(step) / Manifest::kFileName;
  TRIREME_CHECK(exists(manifest), "the last checkpoint, {}, is gone: was it removed while the run wrote it?",
                manifest.parent_path().string());
  return code;
}

std::string Trainer::agreed_state_hash() {
  const std::uint64_t mine = engine_->state_hash();
  const std::vector<std::uint64_t> hashes = options_.comm->all_gather_value(mine);
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    throw AgreedError(
        ErrorCode::kRuntime,
        fmt::format("the state after step {} differs between ranks: rank {} has {}, rank 0 has {}: a "
                    "fault of memory or of the network, or different builds; go on from a checkpoint",
                    engine_->steps_done(), rank, hash_text(hashes[rank]), hash_text(hashes[0])));
  }
  return hash_text(mine);
}

}  // namespace trireme
