// Decides what follows the end of an attempt: a pure function of the history.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/records/history.h"

namespace trireme {

struct Decision {
  enum class Kind : std::uint8_t { kDone, kStopped, kGiveUp, kRestart };

  Kind kind = Kind::kRestart;
  std::string reason;
  std::chrono::milliseconds delay{0};  // before a restart
  bool after_disk_failure = false;
};

struct RestartLimits {
  int max_restarts = 20;
  bool stop_requested = false;  // the user stopped the supervisor
};

/// The supervisor gives up after this many consecutive failures at one step.
constexpr int kSameStepLimit = 3;

/// The number of consecutive failures, up to the last attempt, in the step where the last one failed. Disk
/// failures are not counted, because they do not depend on the step.
int num_failures_in_a_row(const std::vector<Attempt>& attempts);

/// `attempts`: at least one; the last has ended. The delay before a restart is 0.5 s, doubled for each
/// consecutive failure at one step. It is 0 after an early stop (exit code 75), which is no failure. After
/// consecutive disk failures it is 1 s, doubled for each up to one minute.
Decision decide(const std::vector<Attempt>& attempts, const RestartLimits& limits);

}  // namespace trireme
