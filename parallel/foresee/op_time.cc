#include "parallel/foresee/op_time.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"

namespace trireme {
namespace {

const char* peak_name(Arithmetic arithmetic, DType dtype) {
  switch (arithmetic) {
    case Arithmetic::kFp8:
      return "fp8";
    case Arithmetic::kTf32:
      return "tf32";
    case Arithmetic::kSixteenBit:
      return dtype == DType::kFloat16 ? "fp16" : "bf16";
    case Arithmetic::kNone:
    case Arithmetic::kFp32:
    case Arithmetic::kThreeTf32:
      break;
  }
  return "fp32";
}

double log_of(double size) {
  return std::log(std::max(size, 1.0));
}

}  // namespace

std::string kernel_of(const OpShape& shape) {
  const bool is_tf32 = shape.cost.arithmetic == Arithmetic::kTf32;
  const std::string text = fmt::format("{} {}", shape.op, is_tf32 ? "tf32" : name(shape.dtype));
  if (shape.k == 0) return text;
  return fmt::format("{} {}{}{}", text, shape.transpose_a ? 'T' : 'N', shape.transpose_b ? 'T' : 'N',
                     shape.activates ? " activation" : "");
}

double OpTimes::peak(Arithmetic arithmetic, DType dtype) const {
  // A device without tf32 units computes these products in fp32.
  if (arithmetic == Arithmetic::kThreeTf32 && device_.peak_tflops.contains("tf32")) {
    return std::max(peak(Arithmetic::kFp32, dtype), peak(Arithmetic::kTf32, dtype) / 3);
  }
  const char* wanted = peak_name(arithmetic, dtype);
  const auto found = device_.peak_tflops.find(wanted);
  TRIREME_CHECK(found != device_.peak_tflops.end(),
                "devices.{} has no peak_tflops.{}, which the job computes in", device_.name, wanted);
  const auto tf32 = device_.peak_tflops.find("tf32");
  const bool in_three = arithmetic == Arithmetic::kThreeTf32 && device_.type == DeviceType::kCuda;
  if (in_three && tf32 != device_.peak_tflops.end()) return std::max(found->second, tf32->second / 3) * 1e12;
  return found->second * 1e12;
}

double OpTimes::memory_s(double bytes) const {
  return bytes / (device_.memory_gb_s * 1e9 * cluster_.framework.memory_efficiency);
}

double OpTimes::device_s(const OpShape& shape) const {
  const double bytes_s = memory_s(shape.cost.bytes);
  if (shape.cost.operations == 0) return bytes_s;
  const ClusterFramework& framework = cluster_.framework;
  const double rate = peak(shape.cost.arithmetic, shape.dtype);
  double efficiency = device_.attention_efficiency;
  if (shape.k > 0) {
    const auto share = [&](double dim) { return dim / (dim + framework.half_dim); };
    efficiency = device_.matmul_efficiency * share(shape.m) * share(shape.n) * share(shape.k);
  }
  const double ramp_s = framework.ramp_gflop * 1e9 / rate;
  const double seconds = std::max(bytes_s, shape.cost.operations / (rate * efficiency) + ramp_s);
  return shape.cost.arithmetic == Arithmetic::kFp8 ? seconds / framework.fp8_efficiency : seconds;
}

double OpTimes::described_s(const OpShape& shape) const {
  return cluster_.host.launch_us * 1e-6 + device_s(shape);
}

double OpTimes::seconds(const OpShape& shape) const {
  const double described = described_s(shape);
  const auto found = device_.measured.find(kernel_of(shape));
  if (found == device_.measured.end()) return described;
  const double bytes = log_of(shape.cost.bytes), operations = log_of(shape.cost.operations);
  double sum = 0, weights = 0;
  for (const MeasuredOp& call : found->second) {
    OpShape measured = shape;
    measured.cost.bytes = call.bytes;
    measured.cost.operations = call.operations;
    const double x = log_of(call.bytes) - bytes, y = log_of(call.operations) - operations;
    const double z = call.inner > 0 && shape.inner > 0 ? std::log(call.inner / shape.inner) : 0;
    const double distance = x * x + y * y + z * z + 1e-4;
    const double weight = 1 / (distance * distance);
    sum += weight * std::log(call.us * 1e-6 / described_s(measured));
    weights += weight;
  }
  return described * std::exp(sum / weights);
}

}  // namespace trireme
