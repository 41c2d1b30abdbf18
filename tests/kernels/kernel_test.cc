#include "tests/kernels/kernel_test.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/kernels/meta_run.h"

namespace trireme::testing {
namespace {

constexpr std::size_t kGuardBytes = 64;  // keeps the data between them aligned
constexpr std::byte kGuard{0xC5};

std::size_t payload_bytes(DType dtype, const Shape& shape) {
  return static_cast<std::size_t>(shape.num_elems() * size_bytes(dtype));
}

// One seed per run, so that a case has the same inputs whichever other cases run.
std::uint32_t chosen_seed() {
  static const std::uint32_t seed = [] {
    const char* wanted = std::getenv("TRIREME_TEST_SEED");
    const std::uint32_t chosen =
        wanted != nullptr ? static_cast<std::uint32_t>(std::stoul(wanted)) : std::random_device{}();
    fmt::print("inputs from TRIREME_TEST_SEED={}\n", chosen);
    return chosen;
  }();
  return seed;
}

struct Norms {
  double error, expected;
};

Norms norms_of(const std::vector<float>& actual, const std::vector<double>& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return {std::sqrt(error), std::sqrt(norm)};
}

}  // namespace

struct DeviceArray::Memory {
  const Backend* backend;
  KernelContext exec;
  std::shared_ptr<Allocator> allocator;
  void* data;
  std::size_t bytes;
  ~Memory() { allocator->deallocate(data, bytes, MemoryCategory::kActivations); }
};

DeviceArray::DeviceArray(const Rig& rig, DType dtype, const Shape& shape, const void* host)
    : dtype_(dtype), shape_(shape) {
  const std::size_t payload = payload_bytes(dtype, shape), bytes = payload + 2 * kGuardBytes;
  std::vector<std::byte> image(bytes, kGuard);
  std::memset(image.data() + kGuardBytes, 0xFF, payload);
  if (host != nullptr) std::memcpy(image.data() + kGuardBytes, host, payload);
  void* data = rig.allocator().allocate(bytes, MemoryCategory::kActivations);
  memory_.reset(new Memory{&*rig, rig.exec(), rig.shared_allocator(), data, bytes});
  rig->copy_from_host(rig.exec(), {data, DType::kUInt8, {static_cast<std::int64_t>(bytes)}}, image.data());
  data_ = static_cast<std::byte*>(data) + kGuardBytes;
}

DeviceArray::DeviceArray(DeviceArray&&) noexcept = default;
DeviceArray::~DeviceArray() = default;

std::vector<std::byte> DeviceArray::download_bytes() const {
  const std::size_t bytes = memory_->bytes;
  std::vector<std::byte> image(bytes);
  memory_->backend->copy_to_host(memory_->exec, image.data(),
                                 {memory_->data, DType::kUInt8, {static_cast<std::int64_t>(bytes)}});
  if (memory_->exec.device.type == DeviceType::kMeta) return {image.begin(), image.end() - 2 * kGuardBytes};
  for (std::size_t i = 0; i < kGuardBytes; ++i) {
    EXPECT_EQ(image[i], kGuard) << "written before the start of " << shape_.to_string();
    EXPECT_EQ(image[bytes - 1 - i], kGuard) << "written beyond the end of " << shape_.to_string();
  }
  return {image.begin() + kGuardBytes, image.end() - kGuardBytes};
}

std::vector<float> DeviceArray::download() const {
  const std::vector<std::byte> bytes = download_bytes();
  std::vector<float> values(static_cast<std::size_t>(shape_.num_elems()));
  if (size_bytes(dtype_) == sizeof(float)) {
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    values[i] = value_of(bits, dtype_);
  }
  return values;
}

std::vector<std::int32_t> DeviceArray::download_ints() const {
  const std::vector<std::byte> bytes = download_bytes();
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape_.num_elems()));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Rig::Rig(DeviceType type, int num_threads, const Backend* backend)
    : backend_(backend != nullptr ? backend : &backend_for(type)),
      allocator_(std::make_shared<Allocator>(Device{type, 0}, backend_->make_memory_source({type, 0}))),
      stream_(backend_->make_stream == nullptr ? nullptr : backend_->make_stream({type, 0}, allocator_)),
      exec_{.device = {type, 0},
            .stream = stream_.get(),
            .num_threads = num_threads,
            .allocator = allocator_.get()} {
  backend_->bind_thread(exec_);
}

DeviceArray Rig::upload(const Shape& shape, const std::vector<float>& values, DType dtype) const {
  EXPECT_EQ(static_cast<std::int64_t>(values.size()), shape.num_elems());
  if (dtype == DType::kFloat32) return DeviceArray(*this, dtype, shape, values.data());
  std::vector<std::uint16_t> bits(values.size());
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = bits_of(rounded(values[i], dtype), dtype);
  return DeviceArray(*this, dtype, shape, bits.data());
}

DeviceArray Rig::upload(const Shape& shape, const std::vector<std::int32_t>& values) const {
  EXPECT_EQ(static_cast<std::int64_t>(values.size()), shape.num_elems());
  return DeviceArray(*this, DType::kInt32, shape, values.data());
}

DeviceArray Rig::poisoned(const Shape& shape, DType dtype) const {
  return DeviceArray(*this, dtype, shape, nullptr);
}

KernelTest::KernelTest()
    : generator_(chosen_seed()),
      seed_trace_(__FILE__, __LINE__, fmt::format("inputs from TRIREME_TEST_SEED={}", chosen_seed())) {}

std::vector<float> KernelTest::random(std::int64_t n, float factor, DType dtype) {
  std::uniform_real_distribution<float> uniform(-factor, factor);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = uniform(generator_);
  return rounded(std::move(values), dtype);
}

std::vector<std::int32_t> KernelTest::random_ints(std::int64_t n, int low, int high) {
  std::uniform_int_distribution<std::int32_t> uniform(low, high);
  std::vector<std::int32_t> values(static_cast<std::size_t>(n));
  for (std::int32_t& value : values) value = uniform(generator_);
  return values;
}

Outputs KernelTest::same_bits_for_all_threads(const std::function<Outputs(const Rig&)>& run) const {
  const Rig one = rig(1);
  const Outputs first = run(one);
  expect_meta_counts(run, first, one.allocator().stats());
  // Cards do not use host threads. In the emulation, each run has another order of blocks.
  const int last = GetParam() == DeviceType::kCpu ? 4 : 3;
  for (int threads = 2; threads <= last; ++threads) {
    const Outputs other = run(rig(threads));
    EXPECT_EQ(first.size(), other.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(same_bits(first[i], other[i]))
          << "output " << i << " differs between 1 and " << threads << " threads, or runs";
    }
  }
  return first;
}

double relative_error(const std::vector<float>& actual, const std::vector<double>& expected) {
  const Norms norms = norms_of(actual, expected);
  return norms.error / (norms.expected > 0 ? norms.expected : 1.0);
}

void expect_close(const std::vector<float>& actual, const std::vector<double>& expected,
                  const Tolerance& tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const Norms norms = norms_of(actual, expected);
  const double bound = tolerance.relative * norms.expected +
                       tolerance.absolute * std::sqrt(static_cast<double>(expected.size()));
  EXPECT_TRUE(norms.error <= bound) << what << ": an error of norm " << norms.error << " in a result of norm "
                                    << norms.expected << ", want at most " << bound;
}

Tolerance tolerance_of(DType dtype, double fp32_tolerance) {
  if (dtype == DType::kFloat32) return fp32_tolerance;
  return {fp32_tolerance + unit_roundoff(dtype), half_smallest_step(dtype)};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::vector<double> accumulated(const std::vector<double>& values, const std::vector<float>& start,
                                GradientMode mode) {
  std::vector<double> sum = values;
  if (mode == GradientMode::kAccumulate) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += start[i];
  }
  return sum;
}

}  // namespace trireme::testing
