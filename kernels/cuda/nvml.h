// The driver's management library, loaded where it is present: driver version and the links between GPUs. Its
// numbers count all GPUs of the machine, visible to this process or not.
#pragma once

#include <string>
#include <vector>

namespace trireme::cuda {

class Nvml {
 public:
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// "580.65.06", or empty.
  std::string driver_version() const;
  /// "0 - 1: 18 NVLinks" or "0 - 1: PCIe, same switch", a line a pair; empty where unknown.
  std::vector<std::string> links() const;

 private:
  /// Null when the library or the function is missing.
  template <class Function>
  Function* find(const char* name) const;
  int num_nvlinks(void* device) const;

  void* library_ = nullptr;
};

}  // namespace trireme::cuda
