// A job on ranks of this process: single steps on samples of the caller, or the loop of `trireme train`.
//
// The ranks are threads of this process, or this process is one rank of a job of MPI. Then every process
// makes the same calls with the same arguments, and gets the same results.
//
// The engine is made by the first call that needs it: by step() and its like, or by start_training(), which
// begins as `trireme train` does, from a checkpoint in the output folder, if there is one. After the training
// the session keeps its engine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/commands/sampler.h"
#include "launcher/observe/metrics.h"
#include "launcher/python/gathered_values.h"
#include "launcher/python/named_tensors.h"
#include "launcher/python/own_loss.h"
#include "launcher/python/partial_step.h"
#include "launcher/python/samples.h"
#include "launcher/python/session_place.h"
#include "launcher/python/session_rank.h"

namespace trireme {

class Session {
 public:
  struct Options {
    SessionRank::Job job;
    LossFunction loss = {};  // in place of the model's; empty: the model's
    SessionPlace place;
    RankTeam::Poll poll;  // called by a waiting caller about twenty times a second; may be empty
  };
  /// Starts the ranks' threads. Collective under MPI. Throws Error(kUnsupported) in a process of mpirun
  /// without `mpi`, since each would train alone, and for options that a loss of the caller does not support.
  explicit Session(Options options);
  /// Ends a training that is in progress, with a checkpoint, and drops a step in parts.
  ~Session();

  /// False where ranks may use the session until the process ends: in a fork of the process, which has only
  /// its memory, and after a failure in a job of several processes.
  bool can_end();
  const JobConfig& config() const { return options_.job.config; }
  SampleSpec sample() const { return sample_; }
  std::int64_t steps_done() const;

  // All of these wait for the ranks. Errors as in RankTeam::run().
  /// One step on a global batch of `train.global_batch` samples; lr: null for the job's schedule. Not during
  /// a training.
  StepResult step(const Samples& samples, std::optional<double> lr);

  /// Microseconds of the first rank in Engine::step(), in the last step().
  double engine_us() const { return engine_us_; }

  // A step in parts, see PartialStep. Other calls are refused until update().
  std::vector<std::vector<std::int64_t>> rounds();
  float forward(const Samples& samples, std::optional<std::int64_t> num_targets);
  void backward();
  StepResult update(std::optional<double> lr);

  /// Mean loss over the targets.
  float evaluate(const Samples& samples);
  /// Evaluation of the job's data.eval, as in a training.
  EvalMetrics evaluate_data();
  /// Logits of the whole model, on every process.
  void logits(const Samples& samples, GatheredLogits& all);
  /// Continues a prompt of tokens as `trireme sample` does; the context and the vocabulary are the model's.
  /// Throws Error(kInvalidInput) for a model that writes no text, and for tokens that it does not have.
  std::vector<std::int32_t> generate(const std::vector<std::int32_t>& prompt, SamplingOptions options);

  /// Names and shapes of parameters and running statistics.
  std::vector<SafetensorsEntry> state_entries();
  /// Writes the values of all of state_entries(), whose memory the caller provides in the same order.
  void read_state(const std::vector<NamedFloats>& tensors);
  /// Elements of a tensor that one rank holds.
  struct Shard {
    int rank = 0;
    std::string name;
    std::uint64_t first = 0;
    std::vector<float> values;
  };
  /// Of the ranks of this process. Ranks that hold the same values return them, too.
  std::vector<Shard> read_shards();
  /// Sets the state from tensors or from shards that have what each rank holds. Not during a training. Throws
  /// Error(kInvalidInput) for other names or shapes, before anything changes.
  void load_state(const std::vector<NamedFloats>& tensors);
  std::string state_hash();
  /// Writes a checkpoint into `out`/checkpoints and returns its folder. Not during a training.
  std::filesystem::path save(const std::filesystem::path& out);
  /// Continues from a checkpoint, or from the newest one of an output folder. Not during a training.
  void resume(const std::filesystem::path& place);

  struct Training {
    std::filesystem::path out;
    bool prints = false;  // the lines of `trireme train` on standard output
  };
  /// Starts a training. Throws Error(kInvalidInput) if the session has an engine.
  void start_training(const Training& training);
  bool is_training() const { return is_training_; }
  /// The next line of metrics.jsonl; null at the end of the training. Ranks pause after each step until this
  /// is called again.
  std::optional<std::string> next_record();
  /// The training ends after the next step, with a checkpoint. From any thread.
  void request_stop();
  /// request_stop(), and waits for the end.
  void stop_training();

 private:
  /// A call is possible in the pauses of a training, or only without one.
  enum class During : std::uint8_t { kTraining, kNothing };

  Engine& engine(int number) { return *ranks_[static_cast<std::size_t>(number)].engine(); }
  const Engine* engine_of_first() const { return ranks_.front().engine(); }
  /// Runs `work` on every rank, on threads that are bound to its engine.
  void on_ranks(const RankTeam::Work& work);
  void prepare(const char* what, During allowed);
  PartialStep& partial();
  void train(int number, const Training& training);
  void share_records();
  void check_process() const;
  double rate(std::optional<double> lr) const { return lr ? *lr : lr_.at(steps_done()); }

  const Options options_;
  const SampleSpec sample_;
  const LrSchedule lr_;
  const pid_t process_;
  RankTeam team_;
  std::vector<SessionRank> ranks_;
  std::unique_ptr<PartialStep> partial_;  // null: never used
  std::unique_ptr<StopRequest> stop_;
  bool is_training_ = false, is_paused_ = false;
  std::mutex records_mutex_;
  std::deque<std::string> records_;
  std::deque<std::string> new_records_;  // under MPI, on rank 0: for the other processes
  int listener_ = -1;                    // of options_.mpi
  double engine_us_ = 0;
};

}  // namespace trireme
