// The part of NVTX that the backend uses; emulation/profiler.h reads its ranges.
#pragma once

#include <cstdint>

struct nvtxDomainRegistration_st;
using nvtxDomainHandle_t = nvtxDomainRegistration_st*;

inline constexpr std::uint16_t NVTX_VERSION = 3;
enum nvtxMessageType_t { NVTX_MESSAGE_UNKNOWN = 0, NVTX_MESSAGE_TYPE_ASCII = 1 };
struct nvtxEventAttributes_t {
  std::uint16_t version, size;
  std::int32_t messageType;
  union {
    const char* ascii;
  } message;
};
inline constexpr std::uint16_t NVTX_EVENT_ATTRIB_STRUCT_SIZE = sizeof(nvtxEventAttributes_t);

nvtxDomainHandle_t nvtxDomainCreateA(const char* name);
int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes);
int nvtxDomainRangePop(nvtxDomainHandle_t domain);
