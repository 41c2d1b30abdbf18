// Rates of a device in large products and copies. Compared with its data sheet, they show whether it is
// healthy.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/base/device.h"

namespace trireme {

struct DeviceRates {
  struct Product {
    std::string_view math;  // "fp32", "tf32", "fp16", "bf16", "fp8"
    double tflops = 0.0;    // TFLOP/s
  };
  std::int64_t context_bytes = 0;  // see MeasuredCard; 0 for the CPU
  double start_s = 0.0;            // until the device is ready: its context, and libraries that load eagerly
  std::vector<Product> products;
  double copy_gb_per_s = 0.0;    // on the device, counting reads and writes
  double upload_gb_per_s = 0.0;  // from pageable host memory
};

struct DeviceRateSizes {
  std::int64_t product = 8192;  // M, N and K
  std::int64_t copy_bytes = std::int64_t{1} << 30;
  double ms = 100.0;  // duration of each measurement
};

/// The device must be idle.
DeviceRates measure_device_rates(Device device, int num_threads, const DeviceRateSizes& sizes);

}  // namespace trireme
