// Tensors for communicator tests without a backend: host memory that may simulate another device's.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/tensor.h"

namespace trireme {

class TestMemorySource : public MemorySource {
 public:
  void* allocate(std::size_t bytes) override { return std::aligned_alloc(Allocator::kAlignment, bytes); }
  void deallocate(void* data, std::size_t) noexcept override { std::free(data); }
  std::int64_t reserved_bytes() const override { return 0; }
};

/// The memory of the suite's tensors, if not plain host memory: memory of another device that the host can
/// also access.
struct TestMemoryKind {
  DeviceType device = DeviceType::kCpu;
  std::unique_ptr<MemorySource> (*make_source)() = nullptr;
  void (*synchronize)() = nullptr;  // waits for the device before the host reads
};
inline TestMemoryKind& test_memory_kind() {
  static TestMemoryKind kind;
  return kind;
}

class TestMemory {
 public:
  explicit TestMemory(DeviceType device = test_memory_kind().device)
      : allocator_(std::make_shared<Allocator>(Device{device, 0}, make_source(device))) {}

  /// Every byte is 0xFF, so that a missing write is detected.
  Tensor empty(std::int64_t num_elems, DType dtype = DType::kFloat32) const {
    Tensor tensor(allocator_, {num_elems}, dtype, MemoryCategory::kCommunication);
    if (tensor.size_bytes() > 0)
      std::memset(tensor.data(), 0xFF, static_cast<std::size_t>(tensor.size_bytes()));
    return tensor;
  }

  /// Elements value(0), value(1), ... converted to the dtype; 16-bit elements are their bit patterns.
  template <class F>
  Tensor filled(std::int64_t num_elems, DType dtype, F value) const {
    Tensor tensor = empty(num_elems, dtype);
    for (std::int64_t i = 0; i < num_elems; ++i) store(tensor, i, value(i));
    return tensor;
  }

  std::int64_t live_bytes() const { return allocator_->stats().current.total(); }

  static void store(const Tensor& tensor, std::int64_t i, std::int64_t value) {
    switch (tensor.dtype()) {
      case DType::kFloat32:
        static_cast<float*>(tensor.data())[i] = static_cast<float>(value);
        return;
      case DType::kInt32:
        static_cast<std::int32_t*>(tensor.data())[i] = static_cast<std::int32_t>(value);
        return;
      case DType::kFloat16:
      case DType::kBFloat16:
        static_cast<std::uint16_t*>(tensor.data())[i] = static_cast<std::uint16_t>(value);
        return;
      case DType::kUInt8:
      case DType::kE4m3:
      case DType::kE5m2:
        static_cast<std::uint8_t*>(tensor.data())[i] = static_cast<std::uint8_t>(value);
        return;
    }
  }

  static std::int64_t load(const Tensor& tensor, std::int64_t i) {
    synchronize();
    return read(tensor, i);
  }

  /// All elements, as integers.
  static std::vector<std::int64_t> values(const Tensor& tensor) {
    synchronize();
    std::vector<std::int64_t> result(static_cast<std::size_t>(tensor.num_elems()));
    for (std::int64_t i = 0; i < tensor.num_elems(); ++i)
      result[static_cast<std::size_t>(i)] = read(tensor, i);
    return result;
  }

 private:
  static std::unique_ptr<MemorySource> make_source(DeviceType device) {
    const TestMemoryKind& kind = test_memory_kind();
    if (device == kind.device && kind.make_source != nullptr) return kind.make_source();
    return std::make_unique<TestMemorySource>();
  }

  static void synchronize() {
    if (test_memory_kind().synchronize != nullptr) test_memory_kind().synchronize();
  }

  static std::int64_t read(const Tensor& tensor, std::int64_t i) {
    switch (tensor.dtype()) {
      case DType::kFloat32:
        return static_cast<std::int64_t>(static_cast<const float*>(tensor.data())[i]);
      case DType::kInt32:
        return static_cast<const std::int32_t*>(tensor.data())[i];
      case DType::kFloat16:
      case DType::kBFloat16:
        return static_cast<const std::uint16_t*>(tensor.data())[i];
      case DType::kUInt8:
      case DType::kE4m3:
      case DType::kE5m2:
        return static_cast<const std::uint8_t*>(tensor.data())[i];
    }
    return 0;
  }

  std::shared_ptr<Allocator> allocator_;
};

}  // namespace trireme
