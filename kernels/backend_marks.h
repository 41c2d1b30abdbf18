// What a device that runs behind the host shows of the work that is enqueued on it: named ranges for the
// vendor's profiler, and times on a rank's stream. Apart from Backend, as no op needs it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace trireme {

/// Moments of a stream, for the time between them. Marks are enqueued like work: no call but read_ms() waits.
class StreamClock {
 public:
  virtual ~StreamClock() = default;
  /// Forgets all marks.
  virtual void clear() = 0;
  /// Enqueues one. Must not be called while the stream is recorded: a mark is of one moment.
  virtual void mark() = 0;
  /// Milliseconds from each mark to the next; one fewer than there are marks. Waits for the last of them.
  virtual std::vector<double> read_ms() = 0;
};

struct DeviceMarks {
  /// Whether a profiler reads ranges; without one nobody need make their names. Does not change while the
  /// process runs.
  bool (*has_reader)() = nullptr;
  /// Ranges of the calling thread. A profiler shows them over the kernels that are enqueued within.
  void (*begin_range)(const char* name) = nullptr;
  void (*end_range)() = nullptr;
  std::unique_ptr<StreamClock> (*make_clock)(const KernelContext& exec) = nullptr;
};

/// Null for devices whose work is done when a call returns: the host's clock says it all there.
const DeviceMarks* device_marks_for(DeviceType type);

/// The same of a rank's device, where it computes: a prediction counts, and shows nothing.
inline const DeviceMarks* device_marks_of(const Backend& backend, const KernelContext& exec) {
  return backend.is_asynchronous() ? device_marks_for(exec.device.type) : nullptr;
}

const DeviceMarks& cuda_device_marks();  // in builds with TRIREME_CUDA

/// A named range for profilers; nothing where none reads. `name()` is called only for a reader.
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
