// A thread of the caller, prepared for the work of a rank: without signals, and with the engine's number of
// OpenMP threads. [Note: threads of a session] in rank_team.h gives the reasons.
#pragma once

#include <csignal>

#include "runtime/context.h"

namespace trireme {

/// Blocks all signals of the calling thread, and of threads that it starts, during its lifetime.
class BlockedSignals {
 public:
  BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals();

 private:
  sigset_t former_;
};

/// The caller's thread computes during its lifetime, and then has its own number of OpenMP threads again.
class CallerComputes {
 public:
  CallerComputes();
  CallerComputes(const CallerComputes&) = delete;
  CallerComputes& operator=(const CallerComputes&) = delete;
  ~CallerComputes();

 private:
  const BlockedSignals blocked_;
  const int num_threads_;
};

/// Binds the calling thread to an engine's context. Its OpenMP threads block all signals from now on: another
/// library of the process may have started them.
void bind_thread(const Context& ctx);

}  // namespace trireme
