// Phases of steps on a device that runs behind the host, from marks on the rank's stream: [Note: phases of a
// step].
#include <cassert>
#include <deque>
#include <vector>

#include "kernels/backend_marks.h"
#include "parallel/run/step_phases.h"

namespace trireme {
namespace {

/// The phase of the time between two marks.
struct Part {
  double StepPhases::*phase = nullptr;
  bool waits = false;
  bool operator==(const Part&) const = default;
};
constexpr Part kNothing{};

class StreamPhaseClock final : public PhaseClock, private WaitObserver {
 public:
  StreamPhaseClock(const Context& ctx, const MeshGroups& groups, std::size_t max_pending)
      : comms_(groups.all()), steps_(max_pending + 1) {
    const DeviceMarks* marks = device_marks_of(*ctx.backend, ctx.exec);
    for (Step& step : steps_) step.clock = marks->make_clock(ctx.exec);
    for (Communicator* comm : comms_) comm->observe_waits(this);
  }
  ~StreamPhaseClock() override {
    for (Communicator* comm : comms_) comm->observe_waits(nullptr);
  }
  StreamPhaseClock(const StreamPhaseClock&) = delete;
  StreamPhaseClock& operator=(const StreamPhaseClock&) = delete;

  void begin() override {
    assert(pending_.size() < steps_.size());
    Step& step = steps_[next_];
    step.clock->clear();
    step.parts.clear();
    step.clock->mark();
    current_ = kNothing;
    in_step_ = true;
  }
  void enter(TimeSpent spent) override { change({.phase = phase_of(spent)}); }
  void begin_data_wait() override { interrupt({.phase = &StepPhases::data_wait_s}); }
  void end_data_wait() override { change(interrupted_); }
  void finish() override {
    if (!in_step_) return;
    change(kNothing);
    in_step_ = false;
    pending_.push_back(next_);
    next_ = (next_ + 1) % steps_.size();
  }
  StepPhases take() override {
    const Step& step = steps_[pending_.front()];
    pending_.pop_front();
    const std::vector<double> ms = step.clock->read_ms();
    StepPhases phases;
    for (std::size_t i = 0; i < ms.size(); ++i) {
      const Part& part = step.parts[i];
      if (part.phase != nullptr) phases.*part.phase += ms[i] / 1e3;
      if (part.waits) phases.waited_s += ms[i] / 1e3;
    }
    return phases;
  }

 private:
  struct Step {
    std::unique_ptr<StreamClock> clock;
    std::vector<Part> parts;  // between its marks
  };

  void begin_wait() override { interrupt({.phase = &StepPhases::exchange_s, .waits = true}); }
  void end_wait() override { change(interrupted_); }

  void interrupt(Part part) {
    interrupted_ = current_;
    change(part);
  }
  void change(Part part) {
    if (!in_step_ || part == current_) return;
    Step& step = steps_[next_];
    step.clock->mark();
    step.parts.push_back(current_);
    current_ = part;
  }

  std::vector<Communicator*> comms_;
  std::vector<Step> steps_;
  std::size_t next_ = 0;             // index of the running step in steps_
  std::deque<std::size_t> pending_;  // finished, oldest first
  Part current_, interrupted_;
  bool in_step_ = false;
};

}  // namespace

std::unique_ptr<PhaseClock> make_stream_phase_clock(const Context& ctx, const MeshGroups& groups,
                                                    std::size_t max_pending) {
  return std::make_unique<StreamPhaseClock>(ctx, groups, max_pending);
}

}  // namespace trireme
