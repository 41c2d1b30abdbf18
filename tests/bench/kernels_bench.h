// Shared parts of kernels_bench: a rank's memory, the reported rates, and the registration functions.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "runtime/base/buffer.h"

namespace trireme::bench {

/// Threads of the rank: --threads.
int& num_threads();

/// A rank's memory and the backend's table.
class Bench {
 public:
  Bench() { backend_.bind_thread(exec_); }
  const Backend* operator->() const { return &backend_; }
  const KernelContext& exec() const { return exec_; }
  template <class Args>
  void run(const Args& args) const {
    backend_.run(exec_, args);
  }

  /// Uniform in [-1, 1), rounded to `dtype`.
  TensorView random(const Shape& shape, DType dtype) {
    const TensorView values = random(shape), view = empty(shape, dtype);
    backend_.run(exec_, CastArgs{.x = values, .y = view});
    return view;
  }
  TensorView random(const Shape& shape) {
    const TensorView view = empty(shape, DType::kFloat32);
    std::minstd_rand generator(1);
    for (std::int64_t i = 0; i < view.num_elems(); ++i) {
      view.as<float>()[i] = static_cast<float>(generator()) * (2.0f / 2147483647.0f) - 1.0f;
    }
    return view;
  }
  TensorView tokens(const Shape& shape, std::int32_t vocab) {
    const TensorView view = empty(shape, DType::kInt32);
    std::minstd_rand generator(1);
    for (std::int64_t i = 0; i < view.num_elems(); ++i) {
      view.as<std::int32_t>()[i] = static_cast<std::int32_t>(generator() % vocab);
    }
    return view;
  }
  TensorView scalar(float value) {
    const TensorView view = empty({}, DType::kFloat32);
    *view.as<float>() = value;
    return view;
  }

 private:
  TensorView empty(const Shape& shape, DType dtype) {
    const auto bytes = static_cast<std::size_t>(shape.num_elems() * size_bytes(dtype));
    buffers_.emplace_back(allocator_, bytes, MemoryCategory::kActivations);
    return {buffers_.back().data(), dtype, shape};
  }

  const Backend& backend_ = cpu_backend();
  std::shared_ptr<Allocator> allocator_ =
      std::make_shared<Allocator>(Device{}, backend_.make_memory_source({}));
  std::vector<Buffer> buffers_;
  KernelContext exec_{.num_threads = num_threads(), .allocator = allocator_.get()};
};

inline void count_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

inline void count_floats(benchmark::State& state, double floats) {
  state.counters["B/s"] = benchmark::Counter(
      floats * sizeof(float), benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

/// The precision of a product or an attention.
struct Mode {
  const char* name;
  DType dtype = DType::kFloat32;
  MathMode math = MathMode::kFp32;
};

inline constexpr Mode kExact{"fp32"};
inline constexpr Mode kOtherModes[] = {
    {"fp16", DType::kFloat16}, {"bf16", DType::kBFloat16}, {"tf32", DType::kFloat32, MathMode::kTf32}};

/// "gpt2/fc", or "gpt2/fc/bf16" in a mode other than fp32.
inline std::string name_of(const char* name, const Mode& mode) {
  return &mode == &kExact ? name : std::string(name) + "/" + mode.name;
}

template <class Function, class... Case>
void register_case(const char* kernel, const std::string& name, Function function, const Case&... c) {
  benchmark::RegisterBenchmark((std::string(kernel) + "/" + name).c_str(), function, c...)
      ->MeasureProcessCPUTime()
      ->UseRealTime();
}

// Registration by kind of op; products, attention and recurrences are registered in a mode.
void register_products(const Mode& mode);
void register_attention(const Mode& mode);
void register_recurrent(const Mode& mode);
void register_rows();
void register_parameters();

}  // namespace trireme::bench
