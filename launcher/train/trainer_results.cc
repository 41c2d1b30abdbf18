// Reads a step's results and reacts to them: metrics line, skips, spikes.
#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/host/agreement.h"
#include "launcher/host/elapsed.h"
#include "launcher/train/skipped_steps.h"
#include "launcher/train/trainer.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// Implements [Note: one exchange a step].
Trainer::JobReport Trainer::exchange_reports(const StepResult& mine) {
  // Read before the folder is checked, so that a failed write to a lost folder is reported as the loss.
  const auto saving = checkpoint_.progress();
  const auto copying = partner_ ? partner_->progress() : PartnerCopy::Progress::kNone;
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
      .saving = saving,
      .copying = copying};
  std::vector<RankMemory> memories;
  std::vector<double> busy_ms;
  std::vector<StateCheck> checks;
  std::vector<CheckpointSave::Progress> savings;
  std::vector<PartnerCopy::Progress> copyings;
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
    copyings.push_back(one.copying);
    all.clipped += one.clipped;
  }
  all.memory = largest(memories);
  if (mine.phases) all.times = RankTimes(std::move(busy_ms));
  if (mine.step > 0) verification_.judge(mine.step, checks);
  if (standing_ != Standing::kOutputLost) {
    if (const auto saved = checkpoint_.advance(savings)) note_saved(*saved);
  }
  if (partner_) {
    if (const auto copied = partner_->advance(copyings)) note_copied(*copied);
  }
  return all;
}

void Trainer::read_results(std::size_t left) {
  while (run_.engine->num_pending() > left) read_result();
}

std::pair<StepResult, Trainer::JobReport> Trainer::collect_and_exchange() {
  // Verifying the whole state, writing a trace while others wait here, and sending a chunk of a copy over a
  // slow link take longer than the learned limit expects.
  const bool is_longer =
      verification_.is_due(run_.engine->steps_done()) || after_trace_ || (partner_ && partner_->is_active());
  const auto tight = step_limit_.scope(is_longer ? PartLimit::Held::kNo : PartLimit::Held::kYes);
  StepResult result = run_.engine->collect();
  JobReport all = exchange_reports(result);
  return {std::move(result), std::move(all)};
}

void Trainer::read_result() {
  const Watchdog::Scope watch = run_.watched("the reading of a step's results");
  const auto [result, all] = collect_and_exchange();
  const UnreadStep step = unread_.front();
  unread_.pop_front();
  // Includes waiting for parameters that are still in transfer: they belong to the step.
  const auto device_ms = run_.engine->is_asynchronous() && result.phases
                             ? std::optional(1e3 * (result.phases->busy_s() + result.phases->waited_s))
                             : std::nullopt;
  const double step_ms = step_clock_.end_ms(Clock::now(), device_ms);
  step_limit_.add(step_ms / 1e3);
  const std::int64_t elems_per_step =
      run_.options.config.train.global_batch * run_.data.train->targets_per_sample();
  // A device may have been busy while its host waited.
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
         .mfu = utilization(run_.step_flops / step_ms * 1e3),
         .comm_bytes = result.sent_bytes,
         .memory = all.memory,
         .state_hash = hash});
  }
  handle_skip(result);
  handle_spike(result);
}

std::optional<double> Trainer::utilization(double flops_per_s) {
  const double peak = peak_.flops_per_s();
  const auto mfu = peak_.utilization(flops_per_s);
  if (peak > 0 && !mfu) {
    log_warning(
        fmt::format("a step made {:.3g} FLOP/s, more than the peak of {:.3g} that was measured at the start, "
                    "perhaps beside "
                    "other work of the machine: mfu is left out from here on",
                    flops_per_s, peak));
  }
  return mfu;
}

// Every rank has the same values, so all ranks decide alike.
void Trainer::handle_skip(const StepResult& result) {
  if (result.left_out()) return;  // left out as a spike
  const PrecisionSection& precision = run_.options.config.precision;
  std::string reason = reason_to_stop(result, precision);
  if (reason.empty() && result.step == run_.num_steps()) reason = reason_to_fail_at_end(result, precision);
  std::string skip;
  if (result.skipped) {
    const std::int64_t first = run_.sample_at(result.step - 1);
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
  verification_.verify_now();  // a flipped bit may be the cause
  wait_for_save_at_failure();
  throw AgreedError(ErrorCode::kRuntime,
                    fmt::format("step {}: {}{}; {}", result.step, reason, skip.empty() ? "" : "; " + skip,
                                describe_checkpoints()));
}

void Trainer::handle_spike(const StepResult& result) {
  const SpikeWatch::Finding spike = spikes_.look(result);
  if (spike.text.empty()) return;
  if (spike.left_out) verification_.verify_now();  // a flipped bit may be the cause
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
  verification_.verify_now();  // a flipped bit may be the cause, and the check may find the rank
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

}  // namespace trireme
