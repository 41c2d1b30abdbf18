// The loop of `trireme train`: step, evaluate, save, report; stop when asked.
//
// [Note: order of a step's records] The metrics line of a step is written before its checkpoint, and a
// resumed run cuts the lines after its checkpoint off. So every step has one line, whenever the process dies.
// An evaluation comes after the checkpoint of its step, whose manifest says that it is due, and gets its loss
// then: one that fails costs no training, and the run that goes on from there evaluates first.
//
// [Note: a lost output folder] Files that are open take what is written wherever their folder has gone. So
// rank 0 looks between steps, before each checkpoint and at the end whether the folder is still the one that
// it opened, with the same metrics.jsonl, and the run ends with an error when it is not, or when its last
// checkpoint is gone. Earlier checkpoints and config.toml may be removed under a run; it does not need them.
//
// [Note: one exchange a step] What ranks tell each other of a step beside the plan's collectives goes in one
// exchange of plain values when its results are read: memory, how long they were busy, whether the run goes
// on. It is no part of comm_bytes, which are those of the plan. A state hash that is due, a checkpoint and an
// evaluation make exchanges of their own.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "launcher/config/left_out.h"
#include "launcher/host/exit_code.h"
#include "launcher/partner/partner_copy.h"
#include "launcher/report/rank_memory.h"
#include "launcher/train/background_save.h"
#include "launcher/train/flop_rates.h"
#include "launcher/train/learned_limit.h"
#include "launcher/train/run_start.h"
#include "launcher/train/spike_watch.h"
#include "launcher/train/state_verification.h"
#include "launcher/train/stop_request.h"
#include "launcher/train/time_limit.h"

namespace trireme {

class StepTrace;

class Trainer {
 public:
  /// `stop` outlives this.
  Trainer(TrainingRun run, const StopRequest& stop);

  /// Collective. Returns kDone or kStopped. Throws AgreedError for a loss that is not finite, and for a run
  /// that is done without one update; other errors are this rank's alone.
  ExitCode run();

 private:
  /// Whether the run goes on, from one rank. Of all ranks the largest counts.
  enum class Standing : std::int32_t { kGoesOn, kAskedToStop, kOutputLost };
  struct StepReport {
    RankMemory memory;
    Standing standing = Standing::kGoesOn;
    std::int32_t clipped = 0;  // StepResult's, of one rank of each stage
    double busy_ms = 0;        // StepPhases::busy_s
    StateCheck check;
    BackgroundSave::Progress saving = BackgroundSave::Progress::kNone;
    PartnerCopy::Progress copying = PartnerCopy::Progress::kNone;
  };
  /// Of all ranks.
  struct JobReport {
    RankMemory memory;  // of the one that takes most
    std::int32_t clipped = 0;
    RankTimes times;
    double exchange_s = 0;  // of this rank, in the exchange
  };
  /// Collective: [Note: one exchange a step]. Sets standing_. Throws AgreedError where the state of a rank is
  /// corrupt, or a checkpoint could not be written in the background.
  JobReport exchange_reports(const StepResult& mine);
  /// Collective where no step was read since the last call, or something came after it. Whether any rank was
  /// asked to stop. Throws AgreedError when the output folder is lost, with a last checkpoint saved where
  /// that can be.
  bool agreed_to_stop();
  void step();
  /// [Note: MFU]; warns once where the peak turns out too low.
  std::optional<double> utilization(double flops_per_s);
  void write_trace(const StepTrace& trace) const;  // collective
  void read_results(std::size_t left);             // until `left` steps wait to be read
  void read_result();
  std::pair<StepResult, JobReport> collect_and_exchange();  // collective
  /// Names the gradient that was not finite. Throws AgreedError where the job cannot go on. Collective.
  void handle_skip(const StepResult& result);
  /// train.on_spike. Throws AgreedError for a rollback. Collective then.
  void handle_spike(const StepResult& result);
  void evaluate();                // collective
  void make_up_for_evaluation();  // collective: the one that the run before did not get to
  void report_left_out();         // collective
  /// What the step that is saved has of an evaluation.
  enum class Evaluation : std::uint8_t { kNone, kToCome };
  enum class Saving : std::uint8_t { kAtOnce, kAsTheJobSays };
  void save(Evaluation evaluation, Saving saving);  // collective
  /// Into the memory of hosts; at once, where the checkpoint is, too. Collective.
  void copy_to_partner(const RunState& state, Saving saving);
  // Collective, of the checkpoint that is written in the background, and of the copy of one:
  void wait_for_save();             // until it is in its place. Throws AgreedError
  void wait_for_save_at_failure();  // likewise; its own failure is said, and nothing more
  void note_saved(const BackgroundSave::Saved& saved);
  void note_copied(const PartnerCopy::Copied& copied);
  bool is_to_stop();                 // asked to, or on rank 0 its time is up
  void look_at_output();             // rank 0: from a loss on, checkpoints go to the refuge
  [[noreturn]] void leave_output();  // collective: the loss is known to all
  /// Throws AgreedError where the run is done and has made no update.
  ExitCode end(ExitCode code);
  /// Rank 0: summary.json and the last line. `failure`: what the run ends with, empty: well.
  void finish_log(ExitCode code, const std::string& hash, std::int64_t updates, const std::string& failure);

  bool is_due(std::int64_t step, std::int64_t every) const { return every > 0 && step % every == 0; }
  /// Of the whole batch of the step that follows `steps_done` others (see [Note: varying targets]).
  std::int64_t num_targets(std::int64_t steps_done) const;
  std::string describe_checkpoints() const;

  TrainingRun run_;
  const StopRequest& stop_;
  const LrSchedule lr_;
  PeakRate peak_;
  std::optional<OutputWatch::Loss> lost_;  // of the output folder, known to rank 0
  LeftOut left_out_;
  StateVerification verification_;
  TimeLimit time_limit_;
  PartLimit step_limit_, evaluation_limit_, checkpoint_limit_;
  bool after_trace_ = false;  // the last step that was enqueued was traced
  SpikeWatch spikes_;
  std::unique_ptr<BackgroundSave> background_;  // null: checkpoints are written between steps
  std::unique_ptr<PartnerCopy> partner_;        // null: checkpoint.partner = false
  bool has_said_copied_ = false;
  struct UnreadStep {
    double lr = 0, enqueue_ms = 0, data_wait_ms = 0;
  };
  std::deque<UnreadStep> unread_;  // steps whose results are on the device (see [Note: results a step later])
  double checkpoint_s_ = 0;        // of saving since the step that was read last
  std::optional<Standing> standing_;  // of all ranks, after the step that was read last
};

}  // namespace trireme
