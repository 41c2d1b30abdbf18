#include "kernels/cuda/device/check.h"

#include <string>

#include "kernels/cuda/device/device_report.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme::cuda {
namespace {

ErrorCode code_of(cudaError_t result) {
  switch (result) {
    case cudaErrorMemoryAllocation:
      return ErrorCode::kOutOfMemory;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorNoKernelImageForDevice:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kRuntime;
  }
}

// Advice for an error, or an empty text.
std::string advice(cudaError_t result) {
  switch (result) {
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
      return "; " + describe_missing_device(result);
    case cudaErrorNoKernelImageForDevice:
      return "; this build has no code for this card: build with -DCMAKE_CUDA_ARCHITECTURES=native";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
      return "; an earlier kernel may be the culprit: run under compute-sanitizer to find it";
    default:
      return "";
  }
}

std::string describe(cudaError_t result, const char* what) {
  return fmt::format("cuda: {} failed: {} ({}){}", what, cudaGetErrorString(result), cudaGetErrorName(result),
                     advice(result));
}

}  // namespace

void check(cudaError_t result, const char* what, std::source_location where) {
  if (result == cudaSuccess) return;
  const std::string message = describe(result, what);
  (void)cudaGetLastError();  // clears the error, so that the next call does not report it
  throw Error(code_of(result), message, where);
}

void expect_no_capture(cudaStream_t stream, const std::string& problem) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  if (status == cudaStreamCaptureStatusNone) return;
  throw Error(
      ErrorCode::kRuntime,
      "cuda: a step is being recorded, and {} has no plan yet: libraries choose one when a call of its shape "
      "first runs, which must be before; run such a step unrecorded first",
      problem);
}

void check_noexcept(cudaError_t result, const char* what) noexcept {
  // At process exit, the driver may be unloaded before the last handle is destroyed.
  if (result == cudaSuccess || result == cudaErrorCudartUnloading) return;
  try {
    log_error(describe(result, what));
  } catch (...) {  // no memory for the message
  }
}

}  // namespace trireme::cuda
