#include "launcher/supervise/decision.h"

#include <fmt/core.h>

#include "launcher/host/exit_code.h"
#include "launcher/supervise/disk_wait.h"
#include "runtime/base/disk_failure.h"

namespace trireme {
namespace {

constexpr std::chrono::milliseconds kFirstDelay{500};

bool is_failure(const Attempt& attempt) {
  if (!attempt.end) return false;
  const int code = attempt.end->exit_code;
  return code != static_cast<int>(ExitCode::kDone) && code != static_cast<int>(ExitCode::kStopped);
}

// The disk may have room for the probe before a restart and yet not for a checkpoint.
bool failed_by_disk(const Attempt& attempt) {
  return is_failure(attempt) && is_disk_failure(attempt.end->system_error);
}

std::chrono::milliseconds pause_for_disk(const std::vector<Attempt>& attempts) {
  std::chrono::milliseconds paused{0}, pause{0};
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend() && failed_by_disk(*attempt); ++attempt) {
    paused += pause;
    pause = next_pause(paused);
  }
  return pause;
}

}  // namespace

int num_failures_in_a_row(const std::vector<Attempt>& attempts) {
  int number = 0;
  std::optional<std::int64_t> step;  // of the last attempt that has an end
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    // An attempt whose supervisor died is no evidence about the step.
    if (!attempt->end || failed_by_disk(*attempt)) continue;
    if (!is_failure(*attempt) || attempt->end->step != step.value_or(attempt->end->step)) break;
    step = attempt->end->step;
    ++number;
  }
  return number;
}

Decision decide(const std::vector<Attempt>& attempts, const RestartLimits& limits) {
  using Kind = Decision::Kind;
  const Attempt::End& end = *attempts.back().end;
  const auto code = static_cast<ExitCode>(end.exit_code);
  if (code == ExitCode::kDone) return {.kind = Kind::kDone, .reason = "the job is done"};
  if (code == ExitCode::kBadInput)
    return {.kind = Kind::kGiveUp, .reason = "the job was refused (exit code 2), and would be again"};
  if (end.code == ErrorCode::kNoProgress)
    return {.kind = Kind::kGiveUp,
            .reason = "no step of the job made an update, and none would the next time"};
  if (limits.stop_requested) return {.kind = Kind::kStopped, .reason = "stopped early, as requested"};
  const int failures = num_failures_in_a_row(attempts);
  if (failures >= kSameStepLimit)
    return {.kind = Kind::kGiveUp,
            .reason = fmt::format("{} attempts in a row ended in step {}: the job cannot go on from there",
                                  failures, end.step)};
  const auto restarts = static_cast<int>(attempts.size()) - 1;
  if (restarts >= limits.max_restarts)
    return {.kind = Kind::kGiveUp,
            .reason = fmt::format("{} restart(s) have been used (--max-restarts {})", restarts,
                                  limits.max_restarts)};
  if (code == ExitCode::kStopped)
    return {.kind = Kind::kRestart, .reason = "the job stopped early, with a checkpoint"};
  const std::string reason = fmt::format("exit code {} in step {}", end.exit_code, end.step);
  if (failed_by_disk(attempts.back()))
    return {.kind = Kind::kRestart,
            .reason = reason + ", as the disk is full or fails",
            .delay = pause_for_disk(attempts),
            .after_disk_failure = true};
  return {.kind = Kind::kRestart, .reason = reason, .delay = kFirstDelay * (1 << (failures - 1))};
}

}  // namespace trireme
