// Memory of one rank on one device, counted by category.
//
// [Note: memory accounting] Every buffer is rounded up to kAlignment bytes and charged to a category while it
// is live. The same block code runs on the `meta` device, whose source returns addresses that are never
// accessed. So the prediction of `trireme plan` and the measurement of a run are sums over the same calls,
// and equal to the byte. Workspaces of libraries are a separate category, excluded from this guarantee. The
// source may cache freed blocks for reuse. Cached bytes are reserved, not live, and are reported separately.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/device.h"
#include "runtime/base/memory_holders.h"

namespace trireme {

enum class MemoryCategory : std::uint8_t {
  kParameters,     // fp32 masters and working copies
  kGradients,      // parameter gradients, including partial sums of accumulation
  kOptimizer,      // moments and other per-parameter state
  kActivations,    // outputs and saved tensors of ops, and their gradients
  kCommunication,  // communication buffers
  kBatch,          // tokens, images and targets of the micro-batches
  kHost,           // host memory that replaces device memory: offloaded optimizer state
  kData,           // host memory reserved by data sets: decoded images
  kWorkspace,      // scratch of kernels and libraries; excluded from predicted == measured
};
inline constexpr int kNumMemoryCategories = 9;

std::string_view name(MemoryCategory category);

/// Bytes by category.
struct MemoryCounts {
  std::array<std::int64_t, kNumMemoryCategories> bytes{};
  std::int64_t& operator[](MemoryCategory c) { return bytes[static_cast<int>(c)]; }
  std::int64_t operator[](MemoryCategory c) const { return bytes[static_cast<int>(c)]; }
  /// Sum over all categories except workspaces.
  std::int64_t total() const;
  std::int64_t with_workspaces() const { return total() + (*this)[MemoryCategory::kWorkspace]; }
  bool operator==(const MemoryCounts&) const = default;
};

struct MemoryStats {
  MemoryCounts current;         // live now
  MemoryCounts peak;            // each category's own peak
  MemoryCounts at_peak;         // all categories at the time of the largest total
  std::int64_t peak_total = 0;  // the largest total
  // The same with workspaces, which also use device memory. Only the workspaces of cuda attention
  // are predicted.
  MemoryCounts at_device_peak;
  std::int64_t device_peak = 0;
};

/// The source of an allocator's memory, supplied by a backend. Not thread-safe: Allocator locks.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// `bytes` is a positive multiple of Allocator::kAlignment. Returns nullptr when the device is full.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
  /// Bytes taken from the device, live or cached.
  virtual std::int64_t reserved_bytes() const = 0;
  /// While on, allocate() uses a separate pool. Memory freed there returns to that pool only, and the pool
  /// keeps its addresses until the end. Used for work that is recorded with its addresses and replayed.
  /// Backends without recording ignore it.
  virtual void use_fixed_pool(bool /*on*/) {}
  /// Returns cached memory to the device. The device may have to finish all of its work first.
  virtual void give_back() {}
  /// While on, no memory is returned to the device. If the device is full, allocate() returns nullptr.
  virtual void keep(bool /*on*/) {}
};

class Allocator {
 public:
  static constexpr std::size_t kAlignment = 64;

  Allocator(Device device, std::unique_ptr<MemorySource> source,
            std::optional<std::int64_t> limit_bytes = std::nullopt);

  Device device() const { return device_; }
  /// Throws Error(kOutOfMemory) with the bytes by category and the largest holders when the device is full or
  /// the limit is exceeded. `origin` is the source file of the caller (see memory_holders.h).
  void* allocate(std::size_t bytes, MemoryCategory category, const char* origin = "");
  void deallocate(void* data, std::size_t bytes, MemoryCategory category) noexcept;

  MemoryStats stats() const;
  std::int64_t reserved_bytes() const;
  // See MemorySource.
  void use_fixed_pool(bool on);
  void give_back();
  /// Starts a new measurement: sets all peaks to the current values.
  void reset_peak();

  /// Bytes charged for a request.
  static std::size_t rounded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

 private:
  friend class MemoryHolderScope;
  friend class MemoryKeepScope;

  void keep(bool on);

  const Device device_;
  const std::unique_ptr<MemorySource> source_;
  const std::optional<std::int64_t> limit_bytes_;
  mutable std::mutex mutex_;
  MemoryStats stats_;
  MemoryHolders holders_;
  bool keeps_ = false;
};

/// While it exists, no memory is returned to the device, because that may wait for the device. Used while
/// messages are in flight whose peers wait for this rank. A full device is then out of memory at once. Scopes
/// do not nest.
class MemoryKeepScope {
 public:
  explicit MemoryKeepScope(Allocator& allocator) : allocator_(allocator) { allocator_.keep(true); }
  ~MemoryKeepScope() { allocator_.keep(false); }
  MemoryKeepScope(const MemoryKeepScope&) = delete;
  MemoryKeepScope& operator=(const MemoryKeepScope&) = delete;

 private:
  Allocator& allocator_;
};

/// While it exists, new allocations have the holder `name`: a block or a group of parameters.
class MemoryHolderScope {
 public:
  MemoryHolderScope(Allocator& allocator, std::string_view name);
  ~MemoryHolderScope();
  MemoryHolderScope(const MemoryHolderScope&) = delete;
  MemoryHolderScope& operator=(const MemoryHolderScope&) = delete;

 private:
  Allocator& allocator_;
  const std::string* before_;
};

/// "parameters 1.2 GiB, gradients 0 B, ..." for messages.
std::string to_string(const MemoryCounts& counts);
/// "1.50 GiB".
std::string format_bytes(std::int64_t bytes);

}  // namespace trireme
