#include "runtime/base/allocator.h"

#include <algorithm>
#include <cassert>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Number of holders in the message of a failed allocation.
constexpr std::size_t kLargestHolders = 5;

}  // namespace

std::string_view name(MemoryCategory category) {
  constexpr std::string_view kNames[] = {"parameters",  "gradients",     "optimizer",
                                         "activations", "communication", "batch",
                                         "host",        "data",          "workspace"};
  static_assert(std::size(kNames) == kNumMemoryCategories);
  return kNames[static_cast<std::size_t>(category)];
}

std::int64_t MemoryCounts::total() const {
  std::int64_t sum = 0;
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    if (static_cast<MemoryCategory>(c) != MemoryCategory::kWorkspace) sum += bytes[c];
  }
  return sum;
}

std::string format_bytes(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = -1;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, units[unit]);
}

std::string to_string(const MemoryCounts& counts) {
  std::string text;
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    text += fmt::format("{}{} {}", c ? ", " : "", name(static_cast<MemoryCategory>(c)),
                        format_bytes(counts.bytes[c]));
  }
  return text;
}

Allocator::Allocator(Device device, std::unique_ptr<MemorySource> source,
                     std::optional<std::int64_t> limit_bytes)
    : device_(device), source_(std::move(source)), limit_bytes_(limit_bytes) {}

void* Allocator::allocate(std::size_t bytes, MemoryCategory category, const char* origin) {
  const std::size_t size = rounded(bytes == 0 ? 1 : bytes);
  const std::lock_guard lock(mutex_);
  const bool counted = category != MemoryCategory::kWorkspace;
  const bool over_limit =
      counted && limit_bytes_ && stats_.current.total() + static_cast<std::int64_t>(size) > *limit_bytes_;
  void* data = over_limit ? nullptr : source_->allocate(size);
  if (data == nullptr) {
    throw Error(ErrorCode::kOutOfMemory,
                "out of memory on {}: {} more for {} do not fit{}{}; alive now: {}; the largest: {}",
                to_string(device_), format_bytes(static_cast<std::int64_t>(size)),
                holders_.describe(category, origin),
                over_limit ? fmt::format(" under the limit of {}", format_bytes(*limit_bytes_)) : "",
                keeps_ ? fmt::format("; of {} from the device nothing goes back while messages are under way",
                                     format_bytes(source_->reserved_bytes()))
                       : "",
                to_string(stats_.current), holders_.describe_largest(kLargestHolders));
  }
  holders_.add(data, size, category, origin);
  stats_.current[category] += static_cast<std::int64_t>(size);
  stats_.peak[category] = std::max(stats_.peak[category], stats_.current[category]);
  if (stats_.current.total() > stats_.peak_total) {
    stats_.peak_total = stats_.current.total();
    stats_.at_peak = stats_.current;
  }
  if (stats_.current.with_workspaces() > stats_.device_peak) {
    stats_.device_peak = stats_.current.with_workspaces();
    stats_.at_device_peak = stats_.current;
  }
  return data;
}

void Allocator::deallocate(void* data, std::size_t bytes, MemoryCategory category) noexcept {
  const std::size_t size = rounded(bytes == 0 ? 1 : bytes);
  const std::lock_guard lock(mutex_);
  source_->deallocate(data, size);
  holders_.remove(data);
  stats_.current[category] -= static_cast<std::int64_t>(size);
  assert(stats_.current[category] >= 0);
}

MemoryStats Allocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::int64_t Allocator::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return source_->reserved_bytes();
}

void Allocator::use_fixed_pool(bool on) {
  const std::lock_guard lock(mutex_);
  source_->use_fixed_pool(on);
}

void Allocator::give_back() {
  const std::lock_guard lock(mutex_);
  source_->give_back();
}

void Allocator::keep(bool on) {
  const std::lock_guard lock(mutex_);
  keeps_ = on;
  source_->keep(on);
}

void Allocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.current;
  stats_.at_peak = stats_.current;
  stats_.peak_total = stats_.current.total();
  stats_.at_device_peak = stats_.current;
  stats_.device_peak = stats_.current.with_workspaces();
}

MemoryHolderScope::MemoryHolderScope(Allocator& allocator, std::string_view name) : allocator_(allocator) {
  const std::lock_guard lock(allocator_.mutex_);
  before_ = allocator_.holders_.enter(name);
}

MemoryHolderScope::~MemoryHolderScope() {
  const std::lock_guard lock(allocator_.mutex_);
  allocator_.holders_.restore(before_);
}

}  // namespace trireme
