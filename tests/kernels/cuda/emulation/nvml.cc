// A management library with three cards in its own order. The first two have 4 NVLinks.
#include <array>
#include <cstdio>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kNotFound = 6;
struct Card {
  const char* pci_bus_id;
  unsigned nvlinks;
};
std::array<Card, 3> cards{{{"0000:5C:00.0", 4}, {"0000:1A:00.0", 4}, {"0000:3B:00.0", 0}}};

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return kSuccess;
}
int nvmlShutdown() {
  return kSuccess;
}
int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  std::snprintf(text, bytes, "580.65.06");
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  for (Card& card : cards) {
    if (std::strcmp(card.pci_bus_id, id) == 0) {
      *device = &card;
      return kSuccess;
    }
  }
  return kNotFound;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  *active = link < static_cast<Card*>(device)->nvlinks ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* ancestor) {
  const bool both_linked = static_cast<Card*>(a)->nvlinks + static_cast<Card*>(b)->nvlinks == 8;
  *ancestor = both_linked ? 10 : 50;
  return kSuccess;
}
}
