// A job on the ranks of this process: single steps on samples of the caller, or the loop of `trireme train`.
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
#include <string>
#include <vector>

#include "launcher/observe/metrics.h"
#include "launcher/python/named_tensors.h"
#include "launcher/python/own_loss.h"
#include "launcher/python/rank_team.h"
#include "launcher/python/samples.h"
#include "launcher/train/run_start.h"
#include "launcher/train/stop_request.h"

namespace trireme {

class Session {
 public:
  struct Options {
    JobConfig config;  // resolved
    int num_ranks = 1;
    std::optional<JobData> data;  // in place of the samples of data.kind = "synthetic"
    LossFunction loss;            // in place of the model's; empty: the model's
  };
  /// Starts the ranks' threads. Throws Error(kUnsupported) under mpirun, whose processes would each train
  /// alone, and for options that a loss of the caller does not support.
  explicit Session(Options options);
  /// Ends a training that is in progress, with a checkpoint.
  ~Session();

  /// False in a fork of the process, where only the memory of the session exists.
  bool is_of_this_process() const;
  const JobConfig& config() const { return options_.config; }
  SampleSpec sample() const { return sample_; }
  std::int64_t steps_done() const;

  // All of these wait for the ranks. Errors as in RankTeam::run().
  /// One step on a global batch of `train.global_batch` samples; lr: null for the job's schedule. Not during
  /// a training.
  StepResult step(const Samples& samples, std::optional<double> lr);
  /// Mean loss over the targets.
  float evaluate(const Samples& samples);
  /// Evaluation of the job's data.eval, as in a training.
  EvalMetrics evaluate_data();
  /// Receives the logits of a sample, fp32.
  using LogitsReader = std::function<void(std::int64_t sample, std::span<const float> logits, const Shape&)>;
  void logits(const Samples& samples, const LogitsReader& read);

  /// Names and shapes of parameters and running statistics.
  std::vector<SafetensorsEntry> state_entries();
  /// Writes the values of all of state_entries(), whose memory the caller provides in the same order.
  void read_state(const std::vector<NamedFloats>& tensors);
  /// Not during a training. Throws Error(kInvalidInput) for other names or shapes, before anything changes.
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
  std::optional<std::string> next_record(const RankTeam::Poll& poll);
  /// The training ends after the next step, with a checkpoint. From any thread.
  void request_stop();
  /// request_stop(), and waits for the end.
  void stop_training();

 private:
  struct Rank {
    std::unique_ptr<Engine> owned;  // null during a training
    Engine* engine = nullptr;
    RunOptions options;
  };
  Rank& rank(int number) { return ranks_[static_cast<std::size_t>(number)]; }
  Engine& engine(int number) { return *rank(number).engine; }
  RunOptions settled(int number, const std::filesystem::path& out);
  void make_engines();
  void make_engine(int number);
  void train(int number, const Training& training);
  void check_process() const;
  void refuse_during_training(const char* what) const;
  void prepare(const char* what_not_during_training);
  std::string agreed_hash(int number);
  DataRecord record_of_samples() const;

  const Options options_;
  const SampleSpec sample_;
  const LrSchedule lr_;
  const pid_t process_;
  RankTeam team_;
  std::vector<Rank> ranks_;
  std::unique_ptr<StopRequest> stop_;
  bool is_training_ = false, is_paused_ = false;
  std::mutex records_mutex_;
  std::deque<std::string> records_;
};

}  // namespace trireme
