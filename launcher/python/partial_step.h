// A training step in parts, for schedules of the caller: forward and backward of each round of micro-batches,
// and the update at the end. A round has one micro-batch of every data rank.
//
// The ranks play the plan of the whole step in Engine::step(), and pause in its calls: for a round's samples,
// after its forward, and before the update. So the parts have the bits of the whole step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/python/rank_team.h"
#include "launcher/python/samples.h"
#include "parallel/run/engine.h"

namespace trireme {

class PartialStep {
 public:
  struct Rank {
    Engine* engine = nullptr;
    Communicator* comm = nullptr;  // of all ranks, over host memory
  };
  struct Options {
    RankTeam& team;
    std::vector<Rank> ranks;  // of the team
    SampleSpec sample;
    RankTeam::Poll poll;
  };
  /// Throws Error(kUnsupported) for a pipeline, whose plan orders forwards and backwards,
  /// for a loss that counts its own terms, and for data ranks with different numbers of micro-batches.
  explicit PartialStep(Options options);
  PartialStep(const PartialStep&) = delete;
  PartialStep& operator=(const PartialStep&) = delete;

  /// The samples of each round in the global batch: with them the parts equal Engine::step() on the batch.
  std::vector<std::vector<std::int64_t>> rounds() const;
  std::int64_t samples_per_round() const;
  bool is_in_progress() const { return phase_ != Phase::kNone; }

  // Throw Error(kInvalidInput) if called out of order, and then change nothing. Errors as in RankTeam::run().
  /// Runs the forwards of the next round and returns the mean loss over its targets. `num_targets` of the
  /// whole step: required in the first round if targets do not count.
  float forward(const Samples& samples, std::optional<std::int64_t> num_targets);
  void backward();
  /// After the last backward.
  StepResult update(double lr);
  /// Ends a step in progress. The engines must not be used afterwards.
  void abandon();

 private:
  /// The next call.
  enum class Phase : std::uint8_t { kNone, kForward, kBackward, kUpdate };

  void check_phase(Phase wanted, const char* what) const;
  void begin();
  void run_to_pause();
  void check_abandoned() const;
  HostBatch read(int rank, std::int64_t& round);
  void take_loss(int rank, float loss);
  const BatchLayout& batch() const { return options_.ranks.front().engine->batch(); }
  int num_rounds() const { return static_cast<int>(batch().per_rank()); }

  const Options options_;
  Phase phase_ = Phase::kNone;
  // Written while the ranks pause:
  Samples samples_;
  std::int64_t round_ = 0;         // of samples_
  std::int64_t num_targets_ = 0;   // of the step
  std::int64_t seen_targets_ = 0;  // in the rounds so far
  double lr_ = 0;
  bool abandoned_ = false;
  // Written by the team's first rank:
  float loss_ = 0;  // the round's part of the step's loss
  StepResult result_;
};

}  // namespace trireme
