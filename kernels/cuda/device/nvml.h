// The driver's management library, loaded if present. Reports the driver version and the links between GPUs.
// NVML numbers all GPUs of the machine in its own order, whether or not this process sees them. So GPUs are
// looked up by their PCI bus address.
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
  /// One line per pair, such as "0 - 1: 18 NVLinks on 0, PCIe, same switch". The numbers are indices into
  /// `pci_bus_ids` ("0000:3B:00.0"). Empty if unknown.
  std::vector<std::string> links(const std::vector<std::string>& pci_bus_ids) const;

 private:
  /// Null when the library or the function is missing.
  template <class Function>
  Function* find(const char* name) const;
  int num_nvlinks(void* device) const;

  void* library_ = nullptr;
};

}  // namespace trireme::cuda
