// The driver's management library, loaded where it is present: driver version and the links between GPUs. It
// numbers all GPUs of the machine, visible to this process or not, in an order of its own: they are found by
// their place on the PCI bus.
#pragma once

#include <string>
#include <vector>

namespace trireme::cuda {

class Nvml {
 public:
  explicit Nvml(const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// "580.65.06", or empty.
  std::string driver_version() const;
  /// "0 - 1: 18 NVLinks on 0, PCIe, same switch", a line a pair, by their numbers in `pci_bus_ids`
  /// ("0000:3B:00.0"); empty where unknown.
  std::vector<std::string> links(const std::vector<std::string>& pci_bus_ids) const;

 private:
  /// Null when the library or the function is missing.
  template <class Function>
  Function* find(const char* name) const;
  int num_nvlinks(void* device) const;

  void* library_ = nullptr;
};

}  // namespace trireme::cuda
