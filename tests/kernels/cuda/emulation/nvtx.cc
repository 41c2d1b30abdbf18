// A profiler that records the ranges of the calling thread.
#include <nvtx3/nvToolsExt.h>

#include "tests/kernels/cuda/emulation/profiler.h"

struct nvtxDomainRegistration_st {};

namespace {

bool is_attached = false;
thread_local std::vector<std::string> open_ranges;
nvtxDomainRegistration_st domain;

}  // namespace

namespace emulation {

void attach_profiler() {
  is_attached = true;
}

std::vector<std::string>& profiled_ranges() {
  thread_local std::vector<std::string> ranges;
  return ranges;
}

}  // namespace emulation

nvtxDomainHandle_t nvtxDomainCreateA(const char*) {
  return is_attached ? &domain : nullptr;
}

int nvtxDomainRangePushEx(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
  const bool is_text = attributes->version == NVTX_VERSION &&
                       attributes->size == NVTX_EVENT_ATTRIB_STRUCT_SIZE &&
                       attributes->messageType == NVTX_MESSAGE_TYPE_ASCII;
  if (!is_text) return -1;
  std::string name = open_ranges.empty() ? "" : open_ranges.back() + " / ";
  open_ranges.push_back(name += attributes->message.ascii);
  emulation::profiled_ranges().push_back(name);
  return static_cast<int>(open_ranges.size()) - 1;
}

int nvtxDomainRangePop(nvtxDomainHandle_t) {
  open_ranges.pop_back();
  return static_cast<int>(open_ranges.size());
}
