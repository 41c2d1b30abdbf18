#include "kernels/backend.h"

#include "kernels/backend_marks.h"
#include "runtime/base/error.h"

namespace trireme {

void throw_missing_op(const char* device, const char* op) {
  throw Error(ErrorCode::kUnsupported,
              "the device '{}' has no {} yet, of any dtype; it works with device = \"cpu\"", device, op);
}

const Backend& backend_for(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu:
      return cpu_backend();
    case DeviceType::kMeta:
      return meta_backend();
    case DeviceType::kCuda:
#if defined(TRIREME_WITH_CUDA)
      return cuda_backend();
#else
      throw Error(ErrorCode::kUnsupported,
                  "this build has no backend for device 'cuda': configure with `cmake --preset cuda` where a "
                  "CUDA toolkit is installed, or use device = \"cpu\"");
#endif
  }
  throw Error(ErrorCode::kUnsupported, "no backend for device type {}", static_cast<int>(type));
}

const DeviceMarks* device_marks_for([[maybe_unused]] DeviceType type) {
#if defined(TRIREME_WITH_CUDA)
  if (type == DeviceType::kCuda) return &cuda_device_marks();
#endif
  return nullptr;
}

}  // namespace trireme
