#include "tests/kernels/kernel_test.h"

#include <cmath>
#include <cstring>

namespace trireme::testing {
namespace {

constexpr std::int64_t kGuardWords = 16;
constexpr std::uint32_t kGuard = 0xC0FFEE11u;

std::int64_t total_words(const Shape& shape) {
  return shape.num_elems() + 2 * kGuardWords;
}

int chosen_seed() {
  return GTEST_FLAG_GET(random_seed) != 0 ? GTEST_FLAG_GET(random_seed) : 20260101;
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
  const auto words = static_cast<std::size_t>(total_words(shape));
  std::vector<std::uint32_t> image(words, kGuard);
  std::memset(image.data() + kGuardWords, 0xFF, shape.num_elems() * sizeof(std::uint32_t));
  if (host != nullptr) {
    std::memcpy(image.data() + kGuardWords, host, shape.num_elems() * sizeof(std::uint32_t));
  }
  const std::size_t bytes = words * sizeof(std::uint32_t);
  void* data = rig.allocator().allocate(bytes, MemoryCategory::kActivations);
  memory_.reset(new Memory{&*rig, rig.exec(), rig.shared_allocator(), data, bytes});
  rig->copy_from_host(rig.exec(), {data, DType::kInt32, {static_cast<std::int64_t>(words)}}, image.data());
  data_ = static_cast<std::uint32_t*>(data) + kGuardWords;
}

DeviceArray::DeviceArray(DeviceArray&&) noexcept = default;
DeviceArray::~DeviceArray() = default;

std::vector<float> DeviceArray::download() const {
  const std::int64_t words = total_words(shape_);
  std::vector<std::uint32_t> image(static_cast<std::size_t>(words));
  memory_->backend->copy_to_host(memory_->exec, image.data(), {memory_->data, DType::kInt32, {words}});
  for (std::int64_t i = 0; i < kGuardWords; ++i) {
    EXPECT_EQ(image[i], kGuard) << "written before the start of " << shape_.to_string();
    EXPECT_EQ(image[words - 1 - i], kGuard) << "written beyond the end of " << shape_.to_string();
  }
  std::vector<float> values(static_cast<std::size_t>(shape_.num_elems()));
  std::memcpy(values.data(), image.data() + kGuardWords, values.size() * sizeof(float));
  return values;
}

Rig::Rig(DeviceType type, int num_threads)
    : backend_(&backend_for(type)),
      allocator_(std::make_shared<Allocator>(Device{type, 0}, backend_->make_memory_source({type, 0}))),
      stream_(backend_->make_stream == nullptr ? nullptr : backend_->make_stream({type, 0}, allocator_)),
      exec_{.device = {type, 0},
            .stream = stream_.get(),
            .num_threads = num_threads,
            .allocator = allocator_.get()} {
  backend_->bind_thread(exec_);
}

DeviceArray Rig::upload(const Shape& shape, const std::vector<float>& values) const {
  EXPECT_EQ(static_cast<std::int64_t>(values.size()), shape.num_elems());
  return DeviceArray(*this, DType::kFloat32, shape, values.data());
}

DeviceArray Rig::upload(const Shape& shape, const std::vector<std::int32_t>& values) const {
  EXPECT_EQ(static_cast<std::int64_t>(values.size()), shape.num_elems());
  return DeviceArray(*this, DType::kInt32, shape, values.data());
}

DeviceArray Rig::poisoned(const Shape& shape) const {
  return DeviceArray(*this, DType::kFloat32, shape, nullptr);
}

KernelTest::KernelTest()
    : generator_(static_cast<std::mt19937::result_type>(chosen_seed())),
      seed_trace_(__FILE__, __LINE__, "inputs from --gtest_random_seed=" + std::to_string(chosen_seed())) {}

std::vector<float> KernelTest::random(std::int64_t n, float factor) {
  std::uniform_real_distribution<float> uniform(-factor, factor);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = uniform(generator_);
  return values;
}

std::vector<std::int32_t> KernelTest::random_ints(std::int64_t n, int low, int high) {
  std::uniform_int_distribution<std::int32_t> uniform(low, high);
  std::vector<std::int32_t> values(static_cast<std::size_t>(n));
  for (std::int32_t& value : values) value = uniform(generator_);
  return values;
}

Outputs KernelTest::same_bits_for_all_threads(const std::function<Outputs(const Rig&)>& run) const {
  const Outputs first = run(rig(1));
  for (int threads = 2; threads <= 4; ++threads) {
    const Outputs other = run(rig(threads));
    EXPECT_EQ(first.size(), other.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(same_bits(first[i], other[i]))
          << "output " << i << " differs between 1 and " << threads << " threads";
    }
  }
  return first;
}

double relative_error(const std::vector<float>& actual, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / (norm > 0 ? norm : 1.0));
}

void expect_close(const std::vector<float>& actual, const std::vector<double>& expected, double tolerance,
                  const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const double error = relative_error(actual, expected);
  EXPECT_TRUE(error < tolerance) << what << ": relative error " << error << ", want below " << tolerance;
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
