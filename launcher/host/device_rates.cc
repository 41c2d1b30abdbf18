#include "launcher/host/device_rates.h"

#include <algorithm>
#include <chrono>

#include "parallel/foresee/random_operands.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of one run, on average over as many as take about `ms`, after two that are not counted.
template <class Run>
double seconds_of(const Context& ctx, double ms, const Run& run) {
  const auto timed = [&](int times) {
    ctx.backend->synchronize(ctx.exec);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < times; ++i) run();
    ctx.backend->synchronize(ctx.exec);
    return seconds_since(start);
  };
  timed(1);
  const int repeats = static_cast<int>(std::clamp(1e-3 * ms / std::max(timed(1), 1e-9), 1.0, 1000.0));
  return timed(repeats) / repeats;
}

}  // namespace

DeviceRates measure_device_rates(Device device, int num_threads, const DeviceRateSizes& sizes) {
  DeviceRates rates;
  const Clock::time_point start = Clock::now();
  const Context ctx = Context::create(device, num_threads);
  const RandomOperands operands(ctx);
  rates.start_s = seconds_since(start);

  const std::int64_t n = sizes.product;
  const auto measure_product = [&](std::string_view math, DType dtype, MathMode mode) {
    const Tensor a = ctx.empty({n, n}, dtype), b = ctx.empty({n, n}, dtype), d = ctx.empty({n, n}, dtype);
    operands.fill(a);
    operands.fill(b);
    const double seconds =
        seconds_of(ctx, sizes.ms, [&] { ctx.run(MatmulArgs{.a = a, .b = b, .d = d, .math = mode}); });
    const auto extent = static_cast<double>(n);
    rates.products.push_back({math, 2 * extent * extent * extent / seconds * 1e-12});
  };
  measure_product("fp32", DType::kFloat32, MathMode::kFp32);
  measure_product("tf32", DType::kFloat32, MathMode::kTf32);
  measure_product("fp16", DType::kFloat16, MathMode::kFp32);
  measure_product("bf16", DType::kBFloat16, MathMode::kFp32);

  const Shape bytes{sizes.copy_bytes};
  const Tensor from = ctx.zeros(bytes, DType::kUInt8), to = ctx.zeros(bytes, DType::kUInt8);
  const auto gigabytes = 1e-9 * static_cast<double>(sizes.copy_bytes);
  rates.copy_gb_per_s =
      2 * gigabytes / seconds_of(ctx, sizes.ms, [&] { ctx.backend->copy(ctx.exec, to, from); });
  const std::vector<std::byte> host(static_cast<std::size_t>(sizes.copy_bytes));
  rates.upload_gb_per_s =
      gigabytes / seconds_of(ctx, sizes.ms, [&] { ctx.backend->copy_from_host(ctx.exec, to, host.data()); });
  return rates;
}

}  // namespace trireme
