#include "kernels/backend.h"

#include "runtime/base/error.h"

namespace trireme {

void throw_missing_entry(const Backend& backend, const char* op) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("the device '{}' has no {} yet; it works with parallel.device = \"cpu\"",
                          backend.name, op));
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
      throw Error(
          ErrorCode::kUnsupported,
          "this build has no backend for device 'cuda': configure with `cmake --preset cuda` where a CUDA "
          "toolkit is installed, or use device = \"cpu\"");
#endif
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("no backend for device '{}'", name(type)));
}

}  // namespace trireme
