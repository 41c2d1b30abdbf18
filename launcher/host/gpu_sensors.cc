#include "launcher/host/gpu_sensors.h"

#include <dlfcn.h>

namespace trireme {
namespace {

// NVML's ABI: https://docs.nvidia.com/deploy/nvml-api/
using NvmlDevice = void*;
using NvmlEventSet = void*;
using Unsigned64 = unsigned long long;
constexpr int kSuccess = 0, kGpuIsLost = 15;
constexpr unsigned kTemperatureGpu = 0, kClockSm = 1, kClockMemory = 2, kMaxNvlinks = 18;
constexpr int kCorrected = 0, kUncorrected = 1, kSinceDriverLoad = 0;
constexpr Unsigned64 kXidEvent = 0x8;
constexpr double kMilli = 1e3, kPercent = 1e2;  // divided by, because their inverses are not exact doubles
constexpr double kMega = 1e6;

struct Utilization {
  unsigned gpu, memory;
};
struct MemoryInfo {
  Unsigned64 total, free, used;
};
struct EventData {
  NvmlDevice device;
  Unsigned64 type, data;
  unsigned gpu_instance, compute_instance;
};

/// Counted per link, in the order of nvmlNvLinkErrorCounter_t.
constexpr const char* kNvlinkErrors[] = {"replay", "recovery", "crc_flit", "crc_data"};

}  // namespace

struct GpuSensors::Library {
  explicit Library(const char* name) : handle(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) return;
    const auto init = find<int()>("nvmlInit_v2");
    if (init != nullptr && init() == kSuccess) return;
    dlclose(handle);
    handle = nullptr;
  }
  ~Library() {
    if (handle == nullptr) return;
    if (const auto shutdown = find<int()>("nvmlShutdown")) shutdown();
    dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle, name));
  }
  /// Calls `name(arguments..., T*)`. Null if the function is missing or fails. Sets `lost` if the card is
  /// lost.
  template <class T, class... Arguments>
  std::optional<T> get(bool& lost, const char* name, Arguments... arguments) const {
    const auto function = find<int(Arguments..., T*)>(name);
    if (function == nullptr) return std::nullopt;
    T value{};
    const int result = function(arguments..., &value);
    lost = lost || result == kGpuIsLost;
    return result == kSuccess ? std::optional<T>(value) : std::nullopt;
  }
  std::string text(const char* name, NvmlDevice device) const {
    const auto function = find<int(NvmlDevice, char*, unsigned)>(name);
    char value[128] = "";
    return function != nullptr && function(device, value, sizeof value) == kSuccess ? value : "";
  }

  void* handle;
};

struct GpuSensors::Card {
  NvmlDevice device = nullptr;
  GpuReading known;  // constant values
};

namespace {

template <class T>
std::optional<double> scaled(const std::optional<T>& value, double factor = 1, double divisor = 1) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value) * factor / divisor;
}

}  // namespace

GpuSensors::GpuSensors(const std::optional<std::vector<std::string>>& pci_bus_ids, const char* name)
    : library_(std::make_unique<Library>(name)) {
  if (library_->handle == nullptr) {
    library_.reset();
    return;
  }
  bool lost = false;
  const auto add = [&](std::optional<NvmlDevice> device, const std::string& pci_bus_id) {
    if (!device) return;
    GpuReading known{.index = static_cast<int>(cards_.size()),
                     .name = library_->text("nvmlDeviceGetName", *device),
                     .uuid = library_->text("nvmlDeviceGetUUID", *device),
                     .pci_bus_id = pci_bus_id};
    if (const auto index = library_->get<unsigned>(lost, "nvmlDeviceGetIndex", *device))
      known.index = static_cast<int>(*index);
    cards_.push_back({*device, known});
  };
  if (pci_bus_ids) {
    for (const std::string& id : *pci_bus_ids) {
      add(library_->get<NvmlDevice>(lost, "nvmlDeviceGetHandleByPciBusId_v2", id.c_str()), id);
    }
  } else {
    const unsigned count = library_->get<unsigned>(lost, "nvmlDeviceGetCount_v2").value_or(0);
    for (unsigned i = 0; i < count; ++i) {
      add(library_->get<NvmlDevice>(lost, "nvmlDeviceGetHandleByIndex_v2", i), "");
    }
  }
  events_ = library_->get<NvmlEventSet>(lost, "nvmlEventSetCreate").value_or(nullptr);
  const auto watch = library_->find<int(NvmlDevice, Unsigned64, NvmlEventSet)>("nvmlDeviceRegisterEvents");
  for (Card& card : cards_) {
    if (events_ != nullptr && watch != nullptr && watch(card.device, kXidEvent, events_) == kSuccess)
      card.known.xid_errors = 0;
  }
}

GpuSensors::~GpuSensors() {
  if (events_ == nullptr) return;
  if (const auto release = library_->find<int(NvmlEventSet)>("nvmlEventSetFree")) release(events_);
}

std::vector<GpuReading> GpuSensors::read() {
  read_xids();
  std::vector<GpuReading> readings;
  for (Card& card : cards_) {
    GpuReading& reading = readings.emplace_back(card.known);
    read_card(card, reading);
    if (!reading.lost) continue;
    reading = card.known;
    reading.lost = true;
  }
  return readings;
}

void GpuSensors::read_card(Card& card, GpuReading& reading) const {
  const Library& nvml = *library_;
  const NvmlDevice device = card.device;
  bool& lost = reading.lost;
  const auto number = [&](const char* name, auto... more) {
    return nvml.get<unsigned>(lost, name, device, more...);
  };
  reading.temperature_celsius = scaled(number("nvmlDeviceGetTemperature", kTemperatureGpu));
  reading.power_watts = scaled(number("nvmlDeviceGetPowerUsage"), 1, kMilli);
  reading.power_limit_watts = scaled(number("nvmlDeviceGetEnforcedPowerLimit"), 1, kMilli);
  reading.energy_joules =
      scaled(nvml.get<Unsigned64>(lost, "nvmlDeviceGetTotalEnergyConsumption", device), 1, kMilli);
  reading.sm_clock_hertz = scaled(number("nvmlDeviceGetClockInfo", kClockSm), kMega);
  reading.sm_clock_max_hertz = scaled(number("nvmlDeviceGetMaxClockInfo", kClockSm), kMega);
  reading.memory_clock_hertz = scaled(number("nvmlDeviceGetClockInfo", kClockMemory), kMega);
  reading.throttle_bits = nvml.get<Unsigned64>(lost, "nvmlDeviceGetCurrentClocksThrottleReasons", device);
  if (const auto rates = nvml.get<Utilization>(lost, "nvmlDeviceGetUtilizationRates", device)) {
    reading.utilization = rates->gpu / kPercent;
    reading.memory_bandwidth_utilization = rates->memory / kPercent;
  }
  if (const auto memory = nvml.get<MemoryInfo>(lost, "nvmlDeviceGetMemoryInfo", device)) {
    reading.memory_used_bytes = static_cast<double>(memory->used);
    reading.memory_total_bytes = static_cast<double>(memory->total);
  }
  const auto ecc = [&](int kind) {
    return scaled(nvml.get<Unsigned64>(lost, "nvmlDeviceGetTotalEccErrors", device, kind, kSinceDriverLoad));
  };
  reading.ecc_corrected = ecc(kCorrected);
  reading.ecc_uncorrected = ecc(kUncorrected);
  reading.pcie_replays = scaled(number("nvmlDeviceGetPcieReplayCounter"));
  for (int kind = 0; const char* name : kNvlinkErrors) {
    std::optional<double> sum;
    for (unsigned link = 0; link < kMaxNvlinks; ++link) {
      const auto errors = nvml.get<Unsigned64>(lost, "nvmlDeviceGetNvLinkErrorCounter", device, link, kind);
      if (errors) sum = sum.value_or(0) + static_cast<double>(*errors);
    }
    if (sum) reading.nvlink_errors.emplace_back(name, *sum);
    ++kind;
  }
}

// Does not wait for an event.
void GpuSensors::read_xids() {
  if (events_ == nullptr) return;
  const auto wait = library_->find<int(NvmlEventSet, EventData*, unsigned)>("nvmlEventSetWait_v2");
  constexpr int kMostAtOnce = 1000;
  EventData event{};
  for (int i = 0; wait != nullptr && i < kMostAtOnce && wait(events_, &event, 0) == kSuccess; ++i) {
    for (Card& card : cards_) {
      const bool is_its = card.device == event.device && event.type == kXidEvent && card.known.xid_errors;
      if (!is_its) continue;
      ++*card.known.xid_errors;
      card.known.last_xid = event.data;
    }
  }
}

}  // namespace trireme
