// Records when the kernels of a CUDA program run: a library that the driver loads into the program, for
// kernel_share.py.
//
//   CUDA_INJECTION64_PATH=.../libkernel_trace.so TRIREME_KERNEL_TRACE=trace.tsv PROGRAM ...
//
// Writes one line per kernel when the program ends: start and end in nanoseconds and the (mangled) name. A
// graph's kernels are listed one by one. If CUPTI lost records, a last line "lost N" follows, and the trace
// must not be used.
#include <cupti.h>

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

#if CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
#else
using Kernel = CUpti_ActivityKernel9;
#endif

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;

std::FILE* trace = nullptr;
std::size_t lost = 0;

bool succeeds(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return true;
  const char* text = "unknown";
  (void)cuptiGetResultString(result, &text);
  std::fprintf(stderr, "kernel_trace: %s failed: %s\n", call, text);
  return false;
}

void CUPTIAPI lend_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // no limit
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                          std::size_t bytes) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const Kernel*>(record);
    std::fprintf(trace, "%" PRIu64 "\t%" PRIu64 "\t%s\n", kernel->start, kernel->end,
                 kernel->name == nullptr ? "" : kernel->name);
  }
  std::size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) lost += dropped;
  std::free(buffer);
}

void finish() {
  (void)succeeds(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  if (lost != 0) std::fprintf(trace, "lost %zu\n", lost);
  (void)std::fclose(trace);
}

}  // namespace

/// Called by the driver when the program first calls CUDA. Returns 1 for success.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* path = std::getenv("TRIREME_KERNEL_TRACE");
  if (path == nullptr || trace != nullptr) return 1;
  if (!succeeds(cuptiActivityRegisterCallbacks(lend_buffer, take_buffer), "cuptiActivityRegisterCallbacks") ||
      !succeeds(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable")) {
    return 1;  // without a trace, which its reader detects
  }
  trace = std::fopen(path, "w");
  if (trace == nullptr) {
    std::perror(path);
    (void)cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    return 1;
  }
  (void)std::atexit(finish);
  return 1;
}
