// Memory of one rank on one device, counted by what it is for.
//
// [Note: memory accounting] Every buffer is rounded up to kAlignment bytes and charged to a category while it
// is alive. The same block code runs on the `meta` device, whose source hands out addresses that are never
// touched, so the prediction of `trireme plan` and the measurement of a run are sums over the same calls:
// equal to the byte. Workspaces of libraries are a category of their own, outside of that promise. Freed
// blocks may be kept by the source for reuse; that cache is reserved, not live, memory and is reported
// separately.
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
  kGradients,      // parameter gradients, with the partial sums of accumulation
  kOptimizer,      // moments and other per-parameter state
  kActivations,    // outputs and saved tensors of ops, and gradients flowing between them
  kCommunication,  // buffers that only exchange needs
  kBatch,          // tokens, images, targets of the micro-batches
  kHost,           // host memory in place of device memory: offloaded optimizer state
  kData,           // host memory reserved for what data sets keep: decoded pictures
  kWorkspace,      // scratch of kernels and libraries; not part of predicted == measured
};
inline constexpr int kNumMemoryCategories = 9;

std::string_view name(MemoryCategory category);

/// Bytes by category.
struct MemoryCounts {
  std::array<std::int64_t, kNumMemoryCategories> bytes{};
  std::int64_t& operator[](MemoryCategory c) { return bytes[static_cast<int>(c)]; }
  std::int64_t operator[](MemoryCategory c) const { return bytes[static_cast<int>(c)]; }
  /// Sum over all categories but workspaces.
  std::int64_t total() const;
  std::int64_t with_workspaces() const { return total() + (*this)[MemoryCategory::kWorkspace]; }
  bool operator==(const MemoryCounts&) const = default;
};

struct MemoryStats {
  MemoryCounts current;         // alive now
  MemoryCounts peak;            // each category's own peak
  MemoryCounts at_peak;         // all categories at the moment when their total was largest
  std::int64_t peak_total = 0;  // that total
  // The same with workspaces, which take memory of the device, too. Predicted are those of attention on cuda
  // alone.
  MemoryCounts at_device_peak;
  std::int64_t device_peak = 0;
};

/// The source of an allocator's bytes; a backend supplies one. Not thread-safe: Allocator locks.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// `bytes` is a positive multiple of Allocator::kAlignment. Returns nullptr when the device is full.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
  /// Bytes held from the device, live or cached.
  virtual std::int64_t reserved_bytes() const = 0;
  /// While on, allocate() hands out memory of a pool of its own: what is freed goes back to that pool only,
  /// and the pool keeps its addresses until the end. For work that is recorded with its addresses and
  /// replayed again; sources of backends that record nothing ignore it.
  virtual void use_fixed_pool(bool /*on*/) {}
  /// Gives back to the device what is cached. The device may have to finish all of its work first.
  virtual void give_back() {}
  /// While on, nothing goes back to the device; where it is full, allocate() returns nullptr.
  virtual void keep(bool /*on*/) {}
};

class Allocator {
 public:
  static constexpr std::size_t kAlignment = 64;

  Allocator(Device device, std::unique_ptr<MemorySource> source,
            std::optional<std::int64_t> limit_bytes = std::nullopt);

  Device device() const { return device_; }
  /// Throws Error(kOutOfMemory) with the bytes by category and the largest holders when the device or the
  /// limit is exceeded. `origin` is the source file that asks (see memory_holders.h).
  void* allocate(std::size_t bytes, MemoryCategory category, const char* origin = "");
  void deallocate(void* data, std::size_t bytes, MemoryCategory category) noexcept;

  MemoryStats stats() const;
  std::int64_t reserved_bytes() const;
  // See MemorySource.
  void use_fixed_pool(bool on);
  void give_back();
  /// Starts a new measurement: peaks become what is alive now.
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

/// While it lives, nothing goes back to the device, which might wait for the host then: while messages are
/// under way whose peers wait for this rank. A device that is full is out of memory. Scopes do not nest.
class MemoryKeepScope {
 public:
  explicit MemoryKeepScope(Allocator& allocator) : allocator_(allocator) { allocator_.keep(true); }
  ~MemoryKeepScope() { allocator_.keep(false); }
  MemoryKeepScope(const MemoryKeepScope&) = delete;
  MemoryKeepScope& operator=(const MemoryKeepScope&) = delete;

 private:
  Allocator& allocator_;
};

/// While it lives, what is allocated has the holder `name`: a block, a group of parameters.
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
