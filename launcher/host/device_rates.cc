#include "launcher/host/device_rates.h"

#include <algorithm>
#include <chrono>

#include "launcher/host/elapsed.h"
#include "parallel/foresee/random_operands.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

/// Mean seconds of a run, over about `ms`, after two warm-up runs.
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

/// Loads the library code that attention and convolutions of a training step need.
void load_libraries(const Context& ctx) {
  const auto tensor = [&](const Shape& shape) { return ctx.zeros(shape, DType::kBFloat16); };
  const Shape rows{1, 128, 64}, packed{1, 128, 3 * 64};
  const Tensor qkv = tensor(packed), out = tensor(rows), lse = ctx.zeros({1, 1, 128});
  ctx.run(AttentionFwdArgs{.qkv = qkv, .out = out, .lse = lse, .num_heads = 1, .scale = 0.125f});
  ctx.run(AttentionBwdArgs{.dout = tensor(rows),
                           .qkv = qkv,
                           .out = out,
                           .lse = lse,
                           .dqkv = tensor(packed),
                           .num_heads = 1,
                           .scale = 0.125f});
  const ConvGeometry geometry{.stride = 1, .padding = 1};
  const Tensor x = tensor({2, 16, 16, 64}), weight = tensor({64, 64, 3, 3}), y = tensor({2, 16, 16, 64});
  ctx.run(Conv2dFwdArgs{.x = x, .weight = weight, .y = y, .geometry = geometry});
  ctx.run(Conv2dBwdDataArgs{.dy = y, .weight = weight, .dx = x, .geometry = geometry});
  ctx.backend->synchronize(ctx.exec);
}

/// Device memory in use outside of `ctx`'s tensors.
std::int64_t context_bytes(const Context& ctx, Device device) {
  if (ctx.backend->free_bytes == nullptr) return 0;
  const DeviceReport::Card card =
      ctx.backend->examine_devices().devices.at(static_cast<std::size_t>(device.index));
  return card.memory_bytes - ctx.backend->free_bytes(device) - ctx.allocator->reserved_bytes();
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
    const bool is_fp8 = dtype == DType::kE4m3;
    const Tensor a = ctx.empty({n, n}, dtype), b = ctx.empty({n, n}, dtype);
    const Tensor d = ctx.empty({n, n}, is_fp8 ? DType::kBFloat16 : dtype);
    operands.fill(a);
    operands.fill(b);
    // Libraries take fp8 operands in one order only: rows of a, rows of b.
    const Tensor scale = is_fp8 ? ctx.zeros({}) : Tensor();
    if (is_fp8) operands.fill(scale);
    const MatmulArgs args{.a = a,
                          .b = b,
                          .d = d,
                          .transpose_b = is_fp8 ? Transpose::kYes : Transpose::kNo,
                          .math = mode,
                          .a_inverse_scale = scale,
                          .b_inverse_scale = scale};
    const double seconds = seconds_of(ctx, sizes.ms, [&] { ctx.run(args); });
    const auto extent = static_cast<double>(n);
    rates.products.push_back({math, 2 * extent * extent * extent / seconds * 1e-12});
  };
  measure_product("fp32", DType::kFloat32, MathMode::kFp32);
  measure_product("tf32", DType::kFloat32, MathMode::kTf32);
  measure_product("fp16", DType::kFloat16, MathMode::kFp32);
  measure_product("bf16", DType::kBFloat16, MathMode::kFp32);
  try {
    measure_product("fp8", DType::kE4m3, MathMode::kFp32);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;  // cards before sm_89 have no fp8
  }

  const Shape bytes{sizes.copy_bytes};
  const Tensor from = ctx.zeros(bytes, DType::kUInt8), to = ctx.zeros(bytes, DType::kUInt8);
  const auto gigabytes = 1e-9 * static_cast<double>(sizes.copy_bytes);
  rates.copy_gb_per_s =
      2 * gigabytes / seconds_of(ctx, sizes.ms, [&] { ctx.backend->copy(ctx.exec, to, from); });
  const std::vector<std::byte> host(static_cast<std::size_t>(sizes.copy_bytes));
  rates.upload_gb_per_s =
      gigabytes / seconds_of(ctx, sizes.ms, [&] { ctx.backend->copy_from_host(ctx.exec, to, host.data()); });
  load_libraries(ctx);
  rates.context_bytes = context_bytes(ctx, device);
  return rates;
}

}  // namespace trireme
