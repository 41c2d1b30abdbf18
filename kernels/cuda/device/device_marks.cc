// Ranges with NVTX, times with events.
#include "kernels/backend_marks.h"

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <utility>

#include "kernels/cuda/device/stream.h"

namespace trireme {
namespace cuda {
namespace {

/// Null when no profiler is attached: NVTX has then loaded no tool.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kDomain = nvtxDomainCreateA("trireme");
  return kDomain;
}

bool has_reader() {
  return domain() != nullptr;
}

void begin_range(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;  // NVTX copies it
  nvtxDomainRangePushEx(domain(), &attributes);
}

void end_range() {
  nvtxDomainRangePop(domain());
}

/// A timing event. Used on a stream, never in a graph.
class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreateWithFlags(&event_, cudaEventDefault), "cudaEventCreate"); }
  ~TimedEvent() {
    if (event_ != nullptr) check_noexcept(cudaEventDestroy(event_), "cudaEventDestroy");
  }
  TimedEvent(TimedEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  TimedEvent& operator=(TimedEvent&&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Does not wait if the event has already passed, as a step's marks have when its result is read.
  void wait() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }
  /// Both events must have passed.
  float ms_since(const TimedEvent& earlier) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, earlier.event_, event_), "cudaEventElapsedTime");
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class EventClock final : public StreamClock {
 public:
  explicit EventClock(Stream& stream) : stream_(stream) {}

  void clear() override { num_marks_ = 0; }
  void mark() override {
    if (num_marks_ == events_.size()) events_.emplace_back();
    events_[num_marks_++].record(stream_.get());
  }
  std::vector<double> read_ms() override {
    std::vector<double> ms;
    if (num_marks_ == 0) return ms;
    events_[num_marks_ - 1].wait();
    for (std::size_t i = 1; i < num_marks_; ++i) ms.push_back(events_[i].ms_since(events_[i - 1]));
    return ms;
  }

 private:
  Stream& stream_;
  std::vector<TimedEvent> events_;  // kept for the next marks
  std::size_t num_marks_ = 0;
};

}  // namespace
}  // namespace cuda

const DeviceMarks& cuda_device_marks() {
  static constexpr DeviceMarks kMarks{
      .has_reader = cuda::has_reader,
      .begin_range = cuda::begin_range,
      .end_range = cuda::end_range,
      .make_clock = [](const KernelContext& exec) -> std::unique_ptr<StreamClock> {
        return std::make_unique<cuda::EventClock>(cuda::stream_of(exec));
      }};
  return kMarks;
}

}  // namespace trireme
