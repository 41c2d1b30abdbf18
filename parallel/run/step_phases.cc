#include "parallel/run/step_phases.h"

#include <algorithm>

namespace trireme {
namespace {

double& phase_of(StepPhases& phases, TimeSpent spent) {
  switch (spent) {
    case TimeSpent::kForward:
      return phases.forward_s;
    case TimeSpent::kRecompute:
    case TimeSpent::kBackward:
    case TimeSpent::kBackwardWeight:
      return phases.backward_s;
    case TimeSpent::kExchange:
      return phases.exchange_s;
    case TimeSpent::kUpdate:
      break;
  }
  return phases.optimizer_s;
}

}  // namespace

PhaseClock::PhaseClock(const MeshGroups& groups) : comms_(groups.all()) {}

double PhaseClock::waited_s() const {
  double ms = 0;
  for (const Communicator* comm : comms_) ms += comm->exposed_ms();
  return ms / 1e3;
}

void PhaseClock::start() {
  last_ = std::chrono::steady_clock::now();
  last_waited_s_ = waited_s();
  data_wait_s_ = 0;
}

void PhaseClock::lap(TimeSpent spent) {
  const auto now = std::chrono::steady_clock::now();
  const double waited = waited_s();
  const double passed = std::chrono::duration<double>(now - last_).count();
  const double in_exchange = std::clamp(waited - last_waited_s_, 0.0, passed);
  phases_.exchange_s += in_exchange;
  phases_.waited_s += in_exchange;
  phase_of(phases_, spent) += std::max(0.0, passed - in_exchange - data_wait_s_);
  last_ = now;
  last_waited_s_ = waited;
  data_wait_s_ = 0;
}

void PhaseClock::add_data_wait(double seconds) {
  phases_.data_wait_s += seconds;
  data_wait_s_ += seconds;
}

}  // namespace trireme
