// What follows from the end of an attempt: pure reasoning over the history.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/supervise/history.h"

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
  bool stop_requested = false;  // by the user, of the supervisor
};

/// A step at which so many attempts in a row end is not tried again.
constexpr int kSameStepLimit = 3;

/// Attempts in a row, up to the last, that ended with a failure in the step of the last one. A full or
/// failing disk says nothing of the step: those attempts are not counted.
int num_failures_in_a_row(const std::vector<Attempt>& attempts);

/// `attempts`: at least one, the last with its end. The delay is half a second, doubled for each failure in a
/// row at one step; none after an early stop (exit code 75), which is no failure. After attempts in a row
/// that ended because of the disk it is 1 s, doubled for each of them up to a minute.
Decision decide(const std::vector<Attempt>& attempts, const RestartLimits& limits);

}  // namespace trireme
