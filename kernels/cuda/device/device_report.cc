#include "kernels/cuda/device/device_report.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <fmt/core.h>

#include "kernels/cuda/cudnn/cudnn_handle.h"
#include "kernels/cuda/device/nvml.h"

namespace trireme::cuda {
namespace {

std::string version_text(int version) {
  return version == 0 ? "none" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string library_version(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string pci_bus_id(int index) {
  char text[16] = "";  // "0000:3B:00.0"
  return cudaDeviceGetPCIBusId(text, sizeof(text), index) == cudaSuccess ? text : "";
}

}  // namespace

std::string describe_missing_device(cudaError_t result) {
  if (result == cudaErrorNoDevice) return "no GPU is visible to this process (CUDA_VISIBLE_DEVICES?)";
  if (result != cudaErrorInsufficientDriver) {
    return fmt::format("{} ({})", cudaGetErrorString(result), cudaGetErrorName(result));
  }
  int driver = 0;
  int runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "no NVIDIA driver is loaded";
  return fmt::format(
      "the driver supports CUDA up to {} and this build needs {}: update the driver, or build with an older "
      "toolkit",
      version_text(driver), version_text(runtime));
}

DeviceReport examine_devices() {
  DeviceReport report;
  int driver = 0;
  int runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  const Nvml nvml;
  const std::string driver_release = nvml.driver_version();
  report.versions = {
      {"driver", driver == 0 ? "none"
                             : fmt::format("CUDA {}{}", version_text(driver),
                                           driver_release.empty() ? "" : ", " + driver_release)},
      {"toolkit", version_text(runtime)},
      {"cuBLASLt", library_version(cublasLtGetVersion())}};
  if (const std::string cudnn = cudnn_version(); !cudnn.empty()) report.versions.emplace_back("cuDNN", cudnn);

  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) {
    (void)cudaGetLastError();
    report.problem = describe_missing_device(result);
    return report;
  }
  if (count == 0) report.problem = describe_missing_device(cudaErrorNoDevice);
  std::vector<std::string> pci_bus_ids;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    pci_bus_ids.push_back(pci_bus_id(i));
    report.devices.push_back({.name = properties.name,
                              .pci_bus_id = pci_bus_ids.back(),
                              .architecture = fmt::format("sm_{}{}", properties.major, properties.minor),
                              .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
                              .num_multiprocessors = properties.multiProcessorCount});
  }
  report.links = nvml.links(pci_bus_ids);
  return report;
}

}  // namespace trireme::cuda
