#include "parallel/run/step_phases.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <vector>

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

class HostPhaseClock final : public PhaseClock {
 public:
  explicit HostPhaseClock(const MeshGroups& groups) : comms_(groups.all()) {}

  void begin() override {
    phases_ = {};
    current_.reset();
  }
  void enter(TimeSpent spent) override {
    lap();
    current_ = spent;
  }
  void begin_data_wait() override { data_wait_ = Clock::now(); }
  void end_data_wait() override {
    const double seconds = std::chrono::duration<double>(Clock::now() - data_wait_).count();
    phases_.data_wait_s += seconds;
    data_wait_s_ += seconds;
  }
  void finish() override {
    lap();
    current_.reset();
    finished_.push_back(phases_);
  }
  StepPhases take() override {
    const StepPhases phases = finished_.front();
    finished_.pop_front();
    return phases;
  }

 private:
  double waited_s() const {
    double ms = 0;
    for (const Communicator* comm : comms_) ms += comm->exposed_ms();
    return ms / 1e3;
  }
  /// Adds the time since the last call to the current phase.
  void lap() {
    const auto now = Clock::now();
    const double waited = waited_s();
    if (current_) {
      const double passed = std::chrono::duration<double>(now - last_).count();
      const double in_exchange = std::clamp(waited - last_waited_s_, 0.0, passed);
      phases_.exchange_s += in_exchange;
      phases_.waited_s += in_exchange;
      phases_.*phase_of(*current_) += std::max(0.0, passed - in_exchange - data_wait_s_);
    }
    last_ = now;
    last_waited_s_ = waited;
    data_wait_s_ = 0;
  }

  std::vector<Communicator*> comms_;
  std::optional<TimeSpent> current_;  // empty: between steps
  Clock::time_point last_, data_wait_;
  double last_waited_s_ = 0, data_wait_s_ = 0;  // at last_; since then
  StepPhases phases_;
  std::deque<StepPhases> finished_;
};

}  // namespace

double StepPhases::*phase_of(TimeSpent spent) {
  switch (spent) {
    case TimeSpent::kForward:
      return &StepPhases::forward_s;
    case TimeSpent::kRecompute:
    case TimeSpent::kBackward:
    case TimeSpent::kBackwardWeight:
      return &StepPhases::backward_s;
    case TimeSpent::kExchange:
      return &StepPhases::exchange_s;
    case TimeSpent::kUpdate:
      break;
  }
  return &StepPhases::optimizer_s;
}

std::unique_ptr<PhaseClock> make_phase_clock(const Context& ctx, const MeshGroups& groups, Recorded recorded,
                                             std::size_t max_pending) {
  if (!ctx.backend->is_asynchronous()) return std::make_unique<HostPhaseClock>(groups);
  if (recorded == Recorded::kYes) return nullptr;
  return make_stream_phase_clock(ctx, groups, max_pending);
}

}  // namespace trireme
