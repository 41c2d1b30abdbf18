// Profiling marks for work on asynchronous devices: named ranges for the vendor's profiler, and times on a
// rank's stream. Separate from Backend because no op needs them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace trireme {

/// Measures the time between marks on a stream. Marks are enqueued like work. Only read_ms() waits.
class StreamClock {
 public:
  virtual ~StreamClock() = default;
  /// Removes all marks.
  virtual void clear() = 0;
  /// Enqueues a mark. Must not be called while the stream is being captured, as a mark is taken once.
  virtual void mark() = 0;
  /// Milliseconds from each mark to the next: one value fewer than there are marks. Waits for the last mark.
  virtual std::vector<double> read_ms() = 0;
};

struct DeviceMarks {
  /// True while a profiler reads ranges. Otherwise their names need not be built. Constant for a process.
  bool (*has_reader)() = nullptr;
  /// Ranges of the calling thread. A profiler shows them over the kernels that are enqueued inside.
  void (*begin_range)(const char* name) = nullptr;
  void (*end_range)() = nullptr;
  std::unique_ptr<StreamClock> (*make_clock)(const KernelContext& exec) = nullptr;
};

/// Null for synchronous devices, where the host's clock is enough.
const DeviceMarks* device_marks_for(DeviceType type);

/// The marks of a rank's device, or null where `backend` computes nothing asynchronously, such as the meta
/// backend.
inline const DeviceMarks* device_marks_of(const Backend& backend, const KernelContext& exec) {
  return backend.is_asynchronous() ? device_marks_for(exec.device.type) : nullptr;
}

const DeviceMarks& cuda_device_marks();  // in builds with TRIREME_CUDA

/// A named range for profilers. Does nothing without a profiler; `name()` is then not called.
class ProfiledRange {
 public:
  template <class Name>
  ProfiledRange(const DeviceMarks* marks, const Name& name)
      : marks_(marks != nullptr && marks->has_reader() ? marks : nullptr) {
    if (marks_ != nullptr) marks_->begin_range(std::string(name()).c_str());
  }
  ~ProfiledRange() {
    if (marks_ != nullptr) marks_->end_range();
  }
  ProfiledRange(const ProfiledRange&) = delete;
  ProfiledRange& operator=(const ProfiledRange&) = delete;

 private:
  const DeviceMarks* marks_;
};

}  // namespace trireme
