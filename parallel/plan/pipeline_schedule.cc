#include "parallel/plan/pipeline_schedule.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using Kind = PipelineTask::Kind;
using Tasks = std::vector<PipelineTask>;

void check(PipelineSchedule schedule, int stages, int chunks, int micro_batches) {
  TRIREME_CHECK(stages >= 1, "Layout::pipeline = {} must be 1 or more", stages);
  TRIREME_CHECK(chunks >= 1, "Layout::chunks = {} must be 1 or more", chunks);
  TRIREME_CHECK(micro_batches >= 1, "a pipeline of {} stages has {} micro-batches a step: it needs 1 or more",
                stages, micro_batches);
  if (schedule != PipelineSchedule::kInterleaved) {
    TRIREME_CHECK(chunks == 1,
                  "Layout::chunks = {} needs Layout::schedule = "
                  "\"interleaved\"; \"{}\" runs one chunk a rank",
                  chunks, name(schedule));
    return;
  }
  TRIREME_CHECK(chunks > 1,
                "Layout::schedule = \"interleaved\" needs Layout::chunks = 2 "
                "or more; with one chunk a rank it is \"1f1b\"");
  TRIREME_CHECK(micro_batches >= stages,
                "Layout::schedule = \"interleaved\" needs a micro-batch for each of its {0} "
                "stages and has {1}: raise EngineOptions::global_batch, lower EngineOptions::micro_batch or "
                "Layout::pipeline, or take \"1f1b\"",
                stages, micro_batches);
}

Tasks gpipe(int stage, int micro_batches) {
  Tasks tasks;
  for (int i = 0; i < micro_batches; ++i) tasks.push_back({Kind::kForward, stage, i});
  for (int i = 0; i < micro_batches; ++i) tasks.push_back({Kind::kBackward, stage, i});
  return tasks;
}

// `warm_up` forwards, then forwards and backwards in turns, then the remaining backwards.
Tasks in_turns(const Tasks& forwards, const Tasks& backwards, std::size_t warm_up) {
  Tasks tasks(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    if (warm_up + i < forwards.size()) tasks.push_back(forwards[warm_up + i]);
    tasks.push_back(backwards[i]);
  }
  return tasks;
}

Tasks one_forward_one_backward(int stage, int stages, int micro_batches) {
  Tasks forwards, backwards;
  for (int i = 0; i < micro_batches; ++i) {
    forwards.push_back({Kind::kForward, stage, i});
    backwards.push_back({Kind::kBackward, stage, i});
  }
  return in_turns(forwards, backwards, static_cast<std::size_t>(std::min(stages - stage - 1, micro_batches)));
}

// Micro-batches pass through all chunks of the ranks in rounds. Rounds have between p and 2p - 1
// micro-batches, in sizes as equal as possible, so m need not be a multiple of p; rounds below p would leave
// ranks idle. With rounds of p this is Narayanan's order.
Tasks interleaved(int stage, int stages, int chunks, int micro_batches) {
  const int rounds = micro_batches / stages;
  Tasks forwards, backwards;
  int first = 0;
  for (int round = 0; round < rounds; ++round) {
    const int size = micro_batches / rounds + (round < micro_batches % rounds ? 1 : 0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int i = first; i < first + size; ++i) {
        forwards.push_back({Kind::kForward, chunk * stages + stage, i});
        backwards.push_back({Kind::kBackward, (chunks - 1 - chunk) * stages + stage, i});
      }
    }
    first += size;
  }
  const int first_round = micro_batches / rounds + (micro_batches % rounds > 0 ? 1 : 0);
  const int warm_up = 2 * (stages - stage - 1) + (chunks - 1) * first_round;
  return in_turns(forwards, backwards, std::min(static_cast<std::size_t>(warm_up), forwards.size()));
}

// 1F1B with weight gradients delayed by `stage` micro-batches. A late stage has few micro-batches alive and
// fills its waiting time at the end with weight gradients.
Tasks zero_bubble_h1(int stage, int stages, int micro_batches) {
  const int warm_up = std::min(stages - stage - 1, micro_batches);
  Tasks tasks;
  for (int i = 0; i < warm_up; ++i) tasks.push_back({Kind::kForward, stage, i});
  int weights_done = 0;
  for (int i = 0; i < micro_batches; ++i) {
    if (warm_up + i < micro_batches) tasks.push_back({Kind::kForward, stage, warm_up + i});
    tasks.push_back({Kind::kBackwardInput, stage, i});
    if (i >= stage) tasks.push_back({Kind::kBackwardWeight, stage, weights_done++});
  }
  while (weights_done < micro_batches) tasks.push_back({Kind::kBackwardWeight, stage, weights_done++});
  return tasks;
}

std::string_view name(Kind kind) {
  constexpr std::string_view kNames[] = {"Forward", "Backward", "BackwardInput", "BackwardWeight"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

std::string to_string(const PipelineTask& task) {
  return fmt::format("{} stage {} micro-batch {}", name(task.kind), task.chunk, task.micro_batch);
}

std::vector<Tasks> pipeline_tasks(PipelineSchedule schedule, int stages, int chunks, int micro_batches) {
  check(schedule, stages, chunks, micro_batches);
  std::vector<Tasks> tasks;
  for (int stage = 0; stage < stages; ++stage) {
    switch (schedule) {
      case PipelineSchedule::kGpipe:
        tasks.push_back(gpipe(stage, micro_batches));
        break;
      case PipelineSchedule::kOneForwardOneBackward:
        tasks.push_back(one_forward_one_backward(stage, stages, micro_batches));
        break;
      case PipelineSchedule::kInterleaved:
        tasks.push_back(interleaved(stage, stages, chunks, micro_batches));
        break;
      case PipelineSchedule::kZeroBubbleH1:
        tasks.push_back(zero_bubble_h1(stage, stages, micro_batches));
        break;
    }
  }
  return tasks;
}

}  // namespace trireme
