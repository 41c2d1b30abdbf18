// The loop of `trireme train`: step, evaluate, save, report, stop.
//
// [Note: order of a step's records] The metrics line of a step is written before its checkpoint, and a
// resumed run cuts off the lines after its checkpoint. So every step has exactly one line, whenever the
// process dies. An evaluation follows the checkpoint of its step. The checkpoint's manifest first records
// that the evaluation is due, and then its loss. So a failed evaluation costs no training, and the resumed
// run evaluates first.
//
// [Note: a lost output folder] Open files accept writes even if their folder was moved or removed. So rank 0
// checks between steps, before each checkpoint and at the end that the folder and its metrics.jsonl are still
// the ones that it opened. Otherwise, or if the last checkpoint is gone, the run ends with an error. Earlier
// checkpoints and config.toml may be removed during a run; it does not need them.
//
// [Note: one exchange a step] Beside the plan's collectives, ranks exchange plain values once a step, when
// its results are read: memory, busy times, whether the run continues. This exchange is not part of
// comm_bytes, which count the plan's communication. State hashes, checkpoints and evaluations have exchanges
// of their own.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "launcher/host/exit_code.h"
#include "launcher/job/flop_rates.h"
#include "launcher/keys/left_out.h"
#include "launcher/observe/rank_memory.h"
#include "launcher/partner/partner_copy.h"
#include "launcher/state/state_verification.h"
#include "launcher/train/checkpoint_save.h"
#include "launcher/train/learned_limit.h"
#include "launcher/train/run_start.h"
#include "launcher/train/spike_watch.h"
#include "launcher/train/step_clock.h"
#include "launcher/train/stop_request.h"
#include "launcher/train/time_limit.h"

namespace trireme {

class StepTrace;

class Trainer {
 public:
  /// `stop` outlives this.
  Trainer(TrainingRun run, const StopRequest& stop);

  /// Collective. Returns kDone or kStopped. Throws AgreedError for a loss that is not finite, and for a run
  /// without a single update; other errors affect only this rank.
  ExitCode run();

  /// The engine, after run(). Only the destructor may follow.
  std::unique_ptr<Engine> take_engine();

 private:
  /// One rank's view of whether the run continues. The largest value of all ranks counts.
  enum class Standing : std::int32_t { kGoesOn, kAskedToStop, kOutputLost };
  struct StepReport {
    RankMemory memory;
    Standing standing = Standing::kGoesOn;
    std::int32_t clipped = 0;  // StepResult's, from one rank of each stage
    double busy_ms = 0;        // StepPhases::busy_s
    StateCheck check;
    CheckpointSave::Progress saving = CheckpointSave::Progress::kNone;
    PartnerCopy::Progress copying = PartnerCopy::Progress::kNone;
  };
  /// Combined over all ranks.
  struct JobReport {
    RankMemory memory;  // of the rank with the largest peak
    std::int32_t clipped = 0;
    RankTimes times;
    double exchange_s = 0;  // time of this rank in the exchange
  };
  /// Collective: [Note: one exchange a step]. Sets standing_. Throws AgreedError if a rank's state is
  /// corrupt, or a background checkpoint failed.
  JobReport exchange_reports(const StepResult& mine);
  /// True if any rank was asked to stop. Collective if no step was read since the last call, or other work
  /// came after it. Throws AgreedError if the output folder is lost, after saving a last checkpoint if
  /// possible.
  bool agreed_to_stop();
  void step();
  /// [Note: MFU]; warns once if the peak turns out too low.
  std::optional<double> utilization(double flops_per_s);
  void write_trace(const StepTrace& trace) const;  // collective
  void read_results(std::size_t left);             // until `left` steps are unread
  void read_result();
  std::pair<StepResult, JobReport> collect_and_exchange();  // collective
  /// Names the gradient that was not finite. Throws AgreedError if the job cannot continue. Collective.
  void handle_skip(const StepResult& result);
  /// Applies train.on_spike. Collective, and throws AgreedError, for a rollback.
  void handle_spike(const StepResult& result);
  void evaluate();                // collective
  void make_up_for_evaluation();  // collective: if the previous run did not get to it
  void report_left_out();         // collective
  /// The state of the evaluation of the step that is saved.
  enum class Evaluation : std::uint8_t { kNone, kToCome };
  enum class Saving : std::uint8_t { kAtOnce, kAsTheJobSays };
  void save(Evaluation evaluation, Saving saving);  // collective
  /// Throws AgreedError; a failed write to a lost folder has the loss as its cause. Collective.
  CheckpointSave::Saved save_at_once(const CheckpointSave::Job& job);
  /// Copies into the memory of hosts; waits if the checkpoint does. Collective.
  void copy_to_partner(const RunState& state, Saving saving);
  // Collective; for the background checkpoint, and for the partner's copy:
  void wait_for_save();             // until it is complete. Throws AgreedError
  void wait_for_save_at_failure();  // same, but only logs a failure of its own
  void note_saved(const CheckpointSave::Saved& saved);
  void note_copied(const PartnerCopy::Copied& copied);
  bool is_to_stop();                 // asked to stop, or on rank 0 the time limit is reached
  void look_at_output();             // rank 0: after a loss, checkpoints go to the fallback folder
  [[noreturn]] void leave_output();  // collective: the loss was exchanged
  /// Throws AgreedError if the run is done without an update.
  ExitCode end(ExitCode code);
  /// Rank 0: writes summary.json and the last line. `failure`: the run's error; empty: none.
  void finish_log(ExitCode code, const std::string& hash, std::int64_t updates, const std::string& failure);

  bool is_due(std::int64_t step, std::int64_t every) const { return every > 0 && step % every == 0; }
  /// Targets in the global batch of the step after `steps_done` steps (see [Note: varying targets]).
  std::int64_t num_targets(std::int64_t steps_done) const;
  std::string describe_checkpoints() const;

  TrainingRun run_;
  const StopRequest& stop_;
  const LrSchedule lr_;
  PeakRate peak_;
  std::optional<OutputWatch::Loss> lost_;  // of the output folder; set on rank 0
  LeftOut left_out_;
  StateVerification verification_;
  TimeLimit time_limit_;
  PartLimit step_limit_, evaluation_limit_, checkpoint_limit_;
  bool after_trace_ = false;  // the last enqueued step was traced
  SpikeWatch spikes_;
  CheckpointSave checkpoint_;
  std::unique_ptr<PartnerCopy> partner_;  // null: checkpoint.partner = false
  bool has_said_copied_ = false;
  struct UnreadStep {
    double lr = 0, data_wait_ms = 0;
  };
  std::deque<UnreadStep> unread_;  // steps whose results are on the device (see [Note: results a step later])
  StepClock step_clock_;
  double checkpoint_s_ = 0;           // time for saving since the last step that was read
  std::optional<Standing> standing_;  // of all ranks, after the last step that was read
};

}  // namespace trireme
