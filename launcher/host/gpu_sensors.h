// Reads GPU sensors through NVML, the driver's management library: temperature, power, clocks, utilisation,
// errors.
//
// The library is loaded at run time if it is present, and its C interface is declared here. So there is no
// dependency on headers or at link time, and builds without CUDA read the same sensors. A reading is absent
// if the driver lacks the function or the card does not support it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// Why a card's clocks are below their maximum.
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
  int index = 0;  // NVML's index
  std::string name, uuid, pci_bus_id;
  bool lost = false;  // the driver cannot reach the card any more; all other readings are then absent
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts, power_limit_watts,
      energy_joules;  // the energy since the driver was loaded
  std::optional<double> sm_clock_hertz, sm_clock_max_hertz, memory_clock_hertz;
  std::optional<std::uint64_t> throttle_bits;                       // bits of kThrottleReasons and others
  std::optional<double> utilization, memory_bandwidth_utilization;  // fraction of 1, in NVML's last sample
  std::optional<double> memory_used_bytes, memory_total_bytes;      // used by all processes
  std::optional<double> ecc_corrected, ecc_uncorrected;             // since the driver was loaded
  std::optional<double> pcie_replays;                               // since the driver was loaded
  std::vector<std::pair<const char*, double>> nvlink_errors;        // per kind, summed over all links
  std::optional<std::int64_t> xid_errors;  // reported by the driver since this object was created
  std::optional<std::uint64_t> last_xid;   // number of the latest one
};

class GpuSensors {
 public:
  /// `pci_bus_ids`: the cards to read ("0000:3B:00.0"); null: all. Without the library there are no cards.
  explicit GpuSensors(const std::optional<std::vector<std::string>>& pci_bus_ids = std::nullopt,
                      const char* library = "libnvidia-ml.so.1");
  ~GpuSensors();
  GpuSensors(const GpuSensors&) = delete;
  GpuSensors& operator=(const GpuSensors&) = delete;

  /// Queries the driver, which takes milliseconds. Lost cards are included.
  std::vector<GpuReading> read();

 private:
  struct Library;
  struct Card;
  void read_card(Card& card, GpuReading& reading) const;
  void read_xids();

  std::unique_ptr<Library> library_;  // null: not available
  std::vector<Card> cards_;
  void* events_ = nullptr;  // null: XID errors are not reported
};

}  // namespace trireme
