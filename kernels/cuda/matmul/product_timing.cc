#include "kernels/cuda/matmul/product_timing.h"

#include <algorithm>

#include "kernels/cuda/device/check.h"

namespace trireme::cuda {
namespace {

constexpr int kBursts = 7;
constexpr double kBurst_us = 400;  // approximate; events resolve half a microsecond
constexpr int kMostRuns = 50;      // per burst

// A timing event.
class TimeMark {
 public:
  TimeMark() { check(cudaEventCreateWithFlags(&event_, cudaEventDefault), "cudaEventCreate"); }
  ~TimeMark() { check_noexcept(cudaEventDestroy(event_), "cudaEventDestroy"); }
  TimeMark(const TimeMark&) = delete;
  TimeMark& operator=(const TimeMark&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Waits for this event.
  double us_since(const TimeMark& start) const {
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start.event_, event_), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(ms);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::vector<double> times_in_turns(cudaStream_t stream, int num, const std::function<bool(int)>& run) {
  TimeMark start, end;
  std::vector<std::vector<double>> bursts(static_cast<std::size_t>(num));
  std::vector<int> runs(static_cast<std::size_t>(num));  // per burst; 0: refused
  const auto timed = [&](int i, int count) {
    start.record(stream);
    for (int n = 0; n < count; ++n) run(i);
    end.record(stream);
    return end.us_since(start);
  };
  for (int i = 0; i < num; ++i) {
    if (!run(i)) continue;  // the first run also loads the kernel
    const double once = timed(i, 1);
    runs[static_cast<std::size_t>(i)] =
        static_cast<int>(std::clamp(kBurst_us / std::max(once, 1e-3), 1.0, double{kMostRuns}));
  }
  for (int burst = 0; burst < kBursts; ++burst) {
    for (int i = 0; i < num; ++i) {
      const int count = runs[static_cast<std::size_t>(i)];
      if (count > 0) bursts[static_cast<std::size_t>(i)].push_back(timed(i, count) / count);
    }
  }
  std::vector<double> times;
  for (const std::vector<double>& of_one : bursts) times.push_back(of_one.empty() ? 0.0 : median(of_one));
  return times;
}

}  // namespace trireme::cuda
