#include "tests/kernels/cuda/emulation/event_times.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <map>
#include <mutex>

#include "tests/kernels/cuda/emulation/emulation.h"

namespace {

struct Times {
  std::mutex mutex;
  std::map<const EmulatedEventState*, std::chrono::steady_clock::time_point> passed;
};

Times& times() {
  static Times times;
  return times;
}

}  // namespace

void emulated_time_event(const EmulatedEventState* event) {
  const std::lock_guard lock(times().mutex);
  times().passed[event] = {};
}

void emulated_event_passed(const EmulatedEventState* event) {
  const std::lock_guard lock(times().mutex);
  const auto found = times().passed.find(event);
  if (found != times().passed.end()) found->second = std::chrono::steady_clock::now();
}

void emulated_forget_event(const EmulatedEventState* event) {
  const std::lock_guard lock(times().mutex);
  times().passed.erase(event);
}

// A card reports no times for events that are part of a graph or were made without timing. Time comes from
// the host's clock, or from the card's clock if a test sets the duration of products.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  const std::lock_guard lock(times().mutex);
  std::chrono::steady_clock::time_point at[2];
  for (const CUevent_st* event : {from, to}) {
    const EmulatedEventState& state = *event->state;
    const auto found = times().passed.find(&state);
    if (found == times().passed.end() || event->is_captured) return cudaErrorInvalidValue;
    if (!event->mark && state.recorded == 0) return cudaErrorInvalidValue;
    if (event->mark ? !event->mark->is_set() : state.reached < state.recorded) return cudaErrorNotReady;
    at[event == to ? 1 : 0] = found->second;
    if (from == to) at[0] = at[1];
  }
  const bool by_card = emulation::product_algorithms().us != nullptr && !from->mark && !to->mark;
  *ms = by_card ? static_cast<float>(1e-3 * (to->state->us - from->state->us))
                : std::chrono::duration<float, std::milli>(at[1] - at[0]).count();
  return cudaSuccess;
}
