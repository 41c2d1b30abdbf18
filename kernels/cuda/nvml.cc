#include "kernels/cuda/nvml.h"

#include <dlfcn.h>
#include <fmt/core.h>

namespace trireme::cuda {
namespace {

// The library's ABI, of which toolkits do not always ship the header.
using Device = void*;
constexpr int kSuccess = 0;
constexpr unsigned kMaxLinks = 18;

const char* describe(int ancestor) {
  switch (ancestor) {
    case 0:
      return "same board";
    case 10:
      return "PCIe, same switch";
    case 20:
      return "PCIe, several switches";
    case 30:
      return "PCIe, same host bridge";
    case 40:
      return "same CPU socket";
    case 50:
      return "across CPU sockets";
    default:
      return "unknown";
  }
}

}  // namespace

Nvml::Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) return;
  auto* init = find<int()>("nvmlInit_v2");
  if (init == nullptr || init() != kSuccess) {
    dlclose(library_);
    library_ = nullptr;
  }
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  if (auto* shutdown = find<int()>("nvmlShutdown")) shutdown();
  dlclose(library_);
}

template <class Function>
Function* Nvml::find(const char* name) const {
  return library_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library_, name));
}

std::string Nvml::driver_version() const {
  auto* get = find<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  char text[96] = "";
  return get != nullptr && get(text, sizeof(text)) == kSuccess ? text : "";
}

int Nvml::num_nvlinks(void* device) const {
  auto* state = find<int(Device, unsigned, int*)>("nvmlDeviceGetNvLinkState");
  int count = 0;
  for (unsigned link = 0; state != nullptr && link < kMaxLinks; ++link) {
    int active = 0;
    if (state(device, link, &active) == kSuccess && active == 1) ++count;
  }
  return count;
}

std::vector<std::string> Nvml::links() const {
  auto* count_devices = find<int(unsigned*)>("nvmlDeviceGetCount_v2");
  auto* handle = find<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
  auto* ancestor_of = find<int(Device, Device, int*)>("nvmlDeviceGetTopologyCommonAncestor");
  unsigned count = 0;
  if (count_devices == nullptr || handle == nullptr || ancestor_of == nullptr ||
      count_devices(&count) != kSuccess) {
    return {};
  }
  std::vector<std::string> lines;
  for (unsigned i = 0; i < count; ++i) {
    for (unsigned j = i + 1; j < count; ++j) {
      Device a = nullptr, b = nullptr;
      int ancestor = -1;
      if (handle(i, &a) != kSuccess || handle(j, &b) != kSuccess || ancestor_of(a, b, &ancestor) != kSuccess)
        continue;
      const int nvlinks = num_nvlinks(a);
      lines.push_back(nvlinks > 0
                          ? fmt::format("{} - {}: {} NVLinks on {}, {}", i, j, nvlinks, i, describe(ancestor))
                          : fmt::format("{} - {}: {}", i, j, describe(ancestor)));
    }
  }
  return lines;
}

}  // namespace trireme::cuda
