#include "launcher/python/partial_step.h"

#include <numeric>
#include <utility>

#include "launcher/python/computing_thread.h"
#include "parallel/run/rank_parts.h"
#include "runtime/base/error.h"

namespace trireme {

PartialStep::PartialStep(Options options) : options_(std::move(options)) {
  const Engine& engine = *options_.ranks.front().engine;
  const auto refuse = [](bool refused, const char* reason) {
    if (refused)
      throw Error(ErrorCode::kUnsupported, "a step cannot run in parts with {}: use step()", reason);
  };
  refuse(engine.stages().pipeline > 1, "parallel.pipeline above 1, whose plan orders forwards and backwards");
  refuse(counts_loss_terms(engine.blocks()), "a model whose loss counts its own terms");
  refuse(!engine.batch().is_even(), "data ranks that have different numbers of micro-batches");
  for (int rank = 0; rank < options_.team.size(); ++rank) {
    Engine& own = *options_.ranks[static_cast<std::size_t>(rank)].engine;
    own.observe_losses([this, rank](int, float loss) {
      if (!is_in_progress()) return;
      take_loss(rank, loss);
      options_.team.pause(rank);
      check_abandoned();
    });
    own.leave_out_steps([this, rank, &own](float, float) {
      if (!is_in_progress()) return false;
      options_.team.pause(rank);
      check_abandoned();
      own.set_learning_rate(lr_);
      return false;
    });
  }
}

std::vector<std::vector<std::int64_t>> PartialStep::rounds() const {
  std::vector<std::vector<std::int64_t>> rounds;
  for (int round = 0; round < num_rounds(); ++round) {
    std::vector<std::int64_t>& samples = rounds.emplace_back();
    for (int rank = 0; rank < batch().data_ranks; ++rank) {
      const auto [first, count] = batch().samples_of(rank, round);
      samples.resize(samples.size() + static_cast<std::size_t>(count));
      std::iota(samples.end() - count, samples.end(), first);
    }
  }
  return rounds;
}

std::int64_t PartialStep::samples_per_round() const {
  return batch().micro_batch * batch().data_ranks;
}

void PartialStep::check_phase(Phase wanted, const char* what) const {
  const Phase phase = phase_ == Phase::kNone ? Phase::kForward : phase_;
  const char* const next = phase == Phase::kForward    ? "forward()"
                           : phase == Phase::kBackward ? "backward()"
                                                       : "update()";
  TRIREME_CHECK(phase == wanted, "{} after {} of the {} rounds of this step: the next call is {}", what,
                round_, num_rounds(), next);
}

float PartialStep::forward(const Samples& samples, std::optional<std::int64_t> num_targets) {
  check_phase(Phase::kForward, "forward()");
  TRIREME_CHECK(samples.count == samples_per_round(),
                "a round takes {} samples, train.micro_batch for each data rank, and inputs have {}",
                samples_per_round(), samples.count);
  const std::int64_t targets = trireme::num_targets(options_.sample, samples);
  if (phase_ == Phase::kNone) {
    const std::int64_t all = targets_per_sample(options_.sample) * samples.count;
    TRIREME_CHECK(
        num_targets || targets == all,
        "{} of the {} targets of this round do not count (-1): pass num_targets=, the targets of the "
        "whole step that count",
        all - targets, all);
    round_ = seen_targets_ = 0;
    num_targets_ = num_targets.value_or(all * num_rounds());
  }
  const bool is_last = round_ + 1 == num_rounds();
  TRIREME_CHECK(!is_last || seen_targets_ + targets == num_targets_,
                "the rounds have {} targets, and the step was begun with num_targets={}",
                seen_targets_ + targets, num_targets_);
  samples_ = samples;
  ++round_;
  seen_targets_ += targets;
  if (phase_ == Phase::kNone) {
    begin();
  } else {
    options_.team.resume();
  }
  run_to_pause();
  phase_ = Phase::kBackward;
  return targets > 0 ? loss_ * static_cast<float>(num_targets_) / static_cast<float>(targets) : 0.0f;
}

void PartialStep::begin() {
  phase_ = Phase::kForward;
  abandoned_ = false;
  options_.team.start([this](int number) {
    Engine& engine = *options_.ranks[static_cast<std::size_t>(number)].engine;
    bind_thread(engine.context());
    std::int64_t round = 0;
    StepResult mine =
        engine.step([&](std::int64_t, std::int64_t) { return read(number, round); }, num_targets_, 0.0);
    if (number == 0) result_ = std::move(mine);
  });
}

void PartialStep::run_to_pause() {
  try {
    if (!options_.team.wait(options_.poll)) phase_ = Phase::kNone;
  } catch (...) {
    phase_ = Phase::kNone;
    throw;
  }
}

void PartialStep::backward() {
  check_phase(Phase::kBackward, "backward()");
  options_.team.resume();
  run_to_pause();
  phase_ = round_ == num_rounds() ? Phase::kUpdate : Phase::kForward;
}

StepResult PartialStep::update(double lr) {
  check_phase(Phase::kUpdate, "update()");
  lr_ = lr;
  options_.team.resume();
  run_to_pause();
  return result_;
}

void PartialStep::abandon() {
  if (!is_in_progress()) return;
  abandoned_ = true;
  options_.team.resume();
  options_.team.wait({});
}

void PartialStep::check_abandoned() const {
  if (abandoned_) throw Error(ErrorCode::kRuntime, "the step in progress was abandoned");
}

// Called by a rank for its next micro-batch: the first one is there, the others come with later calls of
// forward().
HostBatch PartialStep::read(int rank, std::int64_t& round) {
  if (round == round_) options_.team.pause(rank);
  check_abandoned();
  ++round;
  const int data_rank = options_.ranks[static_cast<std::size_t>(rank)].engine->groups().coord()[Axis::kData];
  return source_of(options_.sample, samples_)(data_rank * batch().micro_batch, batch().micro_batch);
}

// Each rank has the part of its micro-batch; ranks of one data coordinate have the same.
void PartialStep::take_loss(int rank, float loss) {
  const Rank& own = options_.ranks[static_cast<std::size_t>(rank)];
  const std::vector<float> losses = own.comm->all_gather_value(loss);
  if (rank != 0) return;
  const Mesh& mesh = own.engine->groups().mesh;
  loss_ = 0;
  for (int data = 0; data < mesh.size(Axis::kData); ++data)
    loss_ += losses[static_cast<std::size_t>(mesh.rank({{Axis::kData, data}}))];
}

}  // namespace trireme
