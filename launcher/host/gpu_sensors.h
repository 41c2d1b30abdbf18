// What the driver's management library (NVML) says of GPUs: temperature, power, clocks, utilisation, errors.
//
// The library is loaded where it is present, and asked through its C interface, which is declared here: no
// header and no link dependency, and builds without CUDA read the same. A function that a driver lacks, or
// that a card does not support, leaves its reading out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// Why a card's clocks are below their most.
struct ThrottleReason {
  const char* name;
  std::uint64_t bit;  // of nvmlClocksThrottleReasons
};
inline constexpr std::array<ThrottleReason, 6> kThrottleReasons{{{"power_cap", 0x4},
                                                                 {"hardware_slowdown", 0x8},
                                                                 {"sync_boost", 0x10},
                                                                 {"software_thermal", 0x20},
                                                                 {"hardware_thermal", 0x40},
                                                                 {"power_brake", 0x80}}};

struct GpuReading {
  int index = 0;  // the library's
  std::string name, uuid, pci_bus_id;
  bool lost = false;  // the driver cannot reach the card any more; nothing else is known then
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts, power_limit_watts,
      energy_joules;  // the last since the driver was loaded
  std::optional<double> sm_clock_hertz, sm_clock_max_hertz, memory_clock_hertz;
  std::optional<std::uint64_t> throttle_bits;                       // of kThrottleReasons, and others
  std::optional<double> utilization, memory_bandwidth_utilization;  // of 1, in the library's last sample
  std::optional<double> memory_used_bytes, memory_total_bytes;      // of all processes
  std::optional<double> ecc_corrected, ecc_uncorrected;             // since the driver was loaded
  std::optional<double> pcie_replays;                               // likewise
  std::vector<std::pair<const char*, double>> nvlink_errors;        // by kind, over all links
  std::optional<std::int64_t> xid_errors;  // the driver's reports of errors since this object was made
  std::optional<std::uint64_t> last_xid;   // the number of the last of them
};

class GpuSensors {
 public:
  /// The cards with these places on the PCI bus ("0000:3B:00.0"); nothing: all. Of a machine without the
  /// library there are none.
  explicit GpuSensors(const std::optional<std::vector<std::string>>& pci_bus_ids = std::nullopt,
                      const char* library = "libnvidia-ml.so.1");
  ~GpuSensors();
  GpuSensors(const GpuSensors&) = delete;
  GpuSensors& operator=(const GpuSensors&) = delete;

  /// Takes milliseconds: the driver is asked. One that it has lost stays among them.
  std::vector<GpuReading> read();

 private:
  struct Library;
  struct Card;
  void read_card(Card& card, GpuReading& reading) const;
  void read_xids();

  std::unique_ptr<Library> library_;  // null: there is none
  std::vector<Card> cards_;
  void* events_ = nullptr;  // null: XIDs are not told
};

}  // namespace trireme
