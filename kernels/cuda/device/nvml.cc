#include "kernels/cuda/device/nvml.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <utility>

namespace trireme::cuda {
namespace {

// The library's ABI, declared here because some toolkits lack the header.
using Device = void*;
constexpr int kSuccess = 0;
constexpr unsigned kMaxLinks = 18;

const char* describe(int ancestor) {
  for (const auto& [value, text] : {std::pair{0, "same board"},
                                    {10, "PCIe, same switch"},
                                    {20, "PCIe, several switches"},
                                    {30, "PCIe, same host bridge"},
                                    {40, "same CPU socket"},
                                    {50, "across CPU sockets"}}) {
    if (ancestor == value) return text;
  }
  return "unknown";
}

}  // namespace

Nvml::Nvml(const char* library) : library_(dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
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

std::vector<std::string> Nvml::links(const std::vector<std::string>& pci_bus_ids) const {
  auto* handle_of = find<int(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  auto* ancestor_of = find<int(Device, Device, int*)>("nvmlDeviceGetTopologyCommonAncestor");
  if (handle_of == nullptr || ancestor_of == nullptr) return {};
  std::vector<Device> devices;  // null: unknown to the library
  for (const std::string& id : pci_bus_ids) {
    Device device = nullptr;
    devices.push_back(handle_of(id.c_str(), &device) == kSuccess ? device : nullptr);
  }
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = i + 1; j < devices.size(); ++j) {
      int ancestor = -1;
      if (devices[i] == nullptr || devices[j] == nullptr ||
          ancestor_of(devices[i], devices[j], &ancestor) != kSuccess) {
        continue;
      }
      const int nvlinks = num_nvlinks(devices[i]);
      lines.push_back(nvlinks > 0
                          ? fmt::format("{} - {}: {} NVLinks on {}, {}", i, j, nvlinks, i, describe(ancestor))
                          : fmt::format("{} - {}: {}", i, j, describe(ancestor)));
    }
  }
  return lines;
}

}  // namespace trireme::cuda
