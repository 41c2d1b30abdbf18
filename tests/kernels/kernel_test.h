// The conformance suite of backends: compares every kernel of the table with a plain double-precision
// reference, on every device type of this build. Backends are added at the end of this file.
//
// Tests may run in any order on a device: every case allocates its own memory. Outputs start as NaN, which
// reveals elements that a kernel does not write. They are between guard words, which reveal writes out of
// bounds. Inputs are random in every run; a failure prints the TRIREME_TEST_SEED that repeats them.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/rounding.h"

namespace trireme::testing {

class Rig;

/// Device memory between guard bytes.
class DeviceArray {
 public:
  DeviceArray(DeviceArray&&) noexcept;
  ~DeviceArray();

  TensorView view() const { return {data_, dtype_, shape_}; }
  operator TensorView() const { return view(); }
  operator ConstTensorView() const { return view(); }
  /// The values, for a floating-point dtype. Fails the test if a guard byte has changed.
  std::vector<float> download() const;
  std::vector<std::int32_t> download_ints() const;

 private:
  friend class Rig;
  DeviceArray(const Rig& rig, DType dtype, const Shape& shape, const void* host);
  struct Memory;
  std::vector<std::byte> download_bytes() const;
  std::unique_ptr<Memory> memory_;
  void* data_ = nullptr;
  DType dtype_;
  Shape shape_;
};

/// A backend with memory and a number of threads.
class Rig {
 public:
  /// `backend` replaces the device's own table.
  Rig(DeviceType type, int num_threads, const Backend* backend = nullptr);

  const Backend& operator*() const { return *backend_; }
  const Backend* operator->() const { return backend_; }
  const KernelContext& exec() const { return exec_; }
  template <class Args>
  void run(const Args& args) const {
    backend_->run(exec_, args);
  }
  Allocator& allocator() const { return *allocator_; }
  std::shared_ptr<Allocator> shared_allocator() const { return allocator_; }

  /// Rounds to `dtype`.
  DeviceArray upload(const Shape& shape, const std::vector<float>& values,
                     DType dtype = DType::kFloat32) const;
  DeviceArray upload(const Shape& shape, const std::vector<std::int32_t>& values) const;
  DeviceArray scalar(float value) const { return upload({}, std::vector<float>{value}); }
  DeviceArray scalar(std::int32_t value) const { return upload({}, std::vector<std::int32_t>{value}); }
  /// Sets every byte to 0xFF, which is NaN.
  DeviceArray poisoned(const Shape& shape, DType dtype = DType::kFloat32) const;

 private:
  const Backend* backend_;
  std::shared_ptr<Allocator> allocator_;
  std::shared_ptr<void> stream_;
  KernelContext exec_;
};

using Outputs = std::vector<std::vector<float>>;

class KernelTest : public ::testing::TestWithParam<DeviceType> {
 protected:
  KernelTest();

  Rig rig(int num_threads = 2) const { return Rig(GetParam(), num_threads); }
  /// Uniform in [-factor, factor), rounded to `dtype`.
  std::vector<float> random(std::int64_t n, float factor = 1.0f, DType dtype = DType::kFloat32);
  std::vector<std::int32_t> random_ints(std::int64_t n, int low, int high);

  /// Runs a case with 1, 2, 3 and 4 threads on the CPU, or three times on other devices, and expects the same
  /// bits each time. Also runs it on meta, which must count the same bytes and compute nothing. Returns the
  /// outputs.
  Outputs same_bits_for_all_threads(const std::function<Outputs(const Rig&)>& run) const;

 private:
  std::mt19937 generator_;
  ::testing::ScopedTrace seed_trace_;
};

inline constexpr double kForwardTolerance = 1e-5;
inline constexpr double kBackwardTolerance = 1e-4;

/// A bound on the norm of an error: `relative` * norm of the expected values + `absolute` * sqrt(elements).
struct Tolerance {
  double relative, absolute;
  // NOLINTNEXTLINE(google-explicit-constructor): most bounds are relative
  constexpr Tolerance(double relative_, double absolute_ = 0.0) : relative(relative_), absolute(absolute_) {}

  /// For a result of `elems` elements, each a sum of terms whose magnitudes add up to about `terms`. If one
  /// or few elements cancel, the error is a few roundings of the terms, however small the result (Higham
  /// 2002, section 4.2). From five elements on, their norm does not cancel, and no extra error is allowed.
  constexpr Tolerance for_terms(double terms, std::size_t elems) const {
    return elems < 5 ? Tolerance(relative, absolute + 4 * 0x1p-24 * terms) : *this;
  }
};

/// The bound for a result computed in fp32 and rounded to `dtype` once, when it is stored. It is the fp32
/// tolerance plus, for 16 bits, the unit round-off of normal numbers or half a step of subnormal ones. That
/// bounds the error of one rounding in each element, and so in the norm. A kernel that rounds twice is likely
/// to exceed it. Inputs must hold the values that the reference reads.
Tolerance tolerance_of(DType dtype, double fp32_tolerance);

inline constexpr DType kFloatTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

/// Norm of the difference over the norm of `expected`.
double relative_error(const std::vector<float>& actual, const std::vector<double>& expected);
/// Expects the norm of the difference within `tolerance`; NaN fails.
void expect_close(const std::vector<float>& actual, const std::vector<double>& expected,
                  const Tolerance& tolerance, const char* what);
/// Bitwise equality, including NaN.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

/// `values` in double, plus `start` for kAccumulate.
std::vector<double> accumulated(const std::vector<double>& values, const std::vector<float>& start,
                                GradientMode mode);

}  // namespace trireme::testing

// The device types that an executable tests. The build sets them if it is not the cpu.
#if !defined(TRIREME_KERNEL_TEST_DEVICES)
#define TRIREME_KERNEL_TEST_DEVICES ::trireme::DeviceType::kCpu
#endif

/// Instantiates a suite for these device types.
#define TRIREME_INSTANTIATE_KERNEL_TEST(suite)                                               \
  INSTANTIATE_TEST_SUITE_P(Devices, suite, ::testing::Values(TRIREME_KERNEL_TEST_DEVICES),   \
                           [](const ::testing::TestParamInfo<::trireme::DeviceType>& info) { \
                             return std::string(::trireme::name(info.param));                \
                           })
