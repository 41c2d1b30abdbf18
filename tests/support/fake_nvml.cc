// A management library of two cards for tests: the part of libnvidia-ml.so.1 that we call. A text file named
// by FAKE_NVML_STATE, with lines "CARD NAME VALUE", changes readings while a program runs, for example of
// card 0: "temperature 91", "lost 1", "utilization 5", "throttle 64", "xid 79".
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kSuccess = 0, kInvalid = 2, kNotSupported = 3, kTimeout = 10, kLost = 15;
int cards[2] = {0, 1};
long seen_xids[2] = {0, 0};

int number_of(const void* device) {
  return *static_cast<const int*>(device);
}

/// The file's value for a card, or `otherwise`.
long value_of(int card, const char* name, long otherwise) {
  const char* path = std::getenv("FAKE_NVML_STATE");
  FILE* file = path != nullptr ? std::fopen(path, "r") : nullptr;
  if (file == nullptr) return otherwise;
  int number = 0;
  char word[64];
  long value = 0;
  while (std::fscanf(file, "%d %63s %ld", &number, word, &value) == 3) {
    if (number == card && std::strcmp(word, name) == 0) otherwise = value;
  }
  std::fclose(file);
  return otherwise;
}

int tell(void* device, const char* name, long otherwise, auto* to) {
  if (value_of(number_of(device), "lost", 0) != 0) return kLost;
  *to = static_cast<std::remove_pointer_t<decltype(to)>>(value_of(number_of(device), name, otherwise));
  return kSuccess;
}

int copy_text(const std::string& text, char* to, unsigned bytes) {
  if (text.size() >= bytes) return kInvalid;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return kSuccess;
}
int nvmlShutdown() {
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= 2) return kInvalid;
  *device = &cards[index];
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  for (unsigned card = 0; card < 2; ++card) {
    if (id == "0000:" + std::to_string(card + 1) + "A:00.0")
      return nvmlDeviceGetHandleByIndex_v2(card, device);
  }
  return kInvalid;
}
int nvmlDeviceGetIndex(void* device, unsigned* index) {
  *index = static_cast<unsigned>(number_of(device));
  return kSuccess;
}
int nvmlDeviceGetName(void*, char* text, unsigned bytes) {
  return copy_text("Fake \"H200\"", text, bytes);
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned bytes) {
  return copy_text("GPU-" + std::to_string(number_of(device)), text, bytes);
}
int nvmlDeviceGetTemperature(void* device, unsigned, unsigned* celsius) {
  return tell(device, "temperature", 60, celsius);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  return tell(device, "power", 350500, milliwatts);
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  return tell(device, "power_limit", 700000, milliwatts);
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  return tell(device, "energy", 12000, millijoules);
}
int nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* megahertz) {
  return tell(device, type == 1 ? "sm_clock" : "memory_clock", type == 1 ? 1755 : 2619, megahertz);
}
int nvmlDeviceGetMaxClockInfo(void* device, unsigned, unsigned* megahertz) {
  return tell(device, "max_clock", 1980, megahertz);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* bits) {
  return tell(device, "throttle", 0, bits);
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* gpu_and_memory) {
  const int result = tell(device, "utilization", 95, gpu_and_memory);
  return result != kSuccess ? result : tell(device, "memory_utilization", 40, gpu_and_memory + 1);
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  total_free_used[0] = 1000;
  total_free_used[1] = 400;
  return tell(device, "memory_used", 600, total_free_used + 2);
}
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int, unsigned long long* count) {
  if (number_of(device) == 1) return kNotSupported;
  return tell(device, kind == 0 ? "ecc_corrected" : "ecc_uncorrected", kind == 0 ? 3 : 0, count);
}
int nvmlDeviceGetPcieReplayCounter(void* device, unsigned* count) {
  return tell(device, "pcie_replays", 2, count);
}
int nvmlDeviceGetNvLinkErrorCounter(void* device, unsigned link, int kind, unsigned long long* count) {
  if (link >= 4) return kInvalid;
  return tell(device, "nvlink_errors", kind, count);
}
int nvmlEventSetCreate(void** set) {
  static int events;
  *set = &events;
  return kSuccess;
}
int nvmlEventSetFree(void*) {
  return kSuccess;
}
int nvmlDeviceRegisterEvents(void* device, unsigned long long, void*) {
  return number_of(device) == 0 ? kSuccess : kNotSupported;
}
struct FakeEvent {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
int nvmlEventSetWait_v2(void*, FakeEvent* event, unsigned) {
  const long xid = value_of(0, "xid", 0);
  if (xid == 0 || xid == seen_xids[0]) return kTimeout;
  seen_xids[0] = xid;
  *event = {&cards[0], 0x8, static_cast<unsigned long long>(xid), 0, 0};
  return kSuccess;
}
}
