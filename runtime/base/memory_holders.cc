#include "runtime/base/memory_holders.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/allocator.h"

namespace trireme {
namespace {

/// The stem of a path: "attention" for ".../runtime/ops/attention.cc".
std::string_view stem(std::string_view path) {
  if (const auto slash = path.rfind('/'); slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return path.substr(0, path.rfind('.'));
}

std::string label(MemoryCategory category, const std::string* holder, const char* origin) {
  std::string text(name(category));
  if (holder != nullptr) text += " of " + *holder;
  if (const std::string_view op = stem(origin); !op.empty()) text += fmt::format(" ({})", op);
  return text;
}

}  // namespace

const std::string* MemoryHolders::enter(std::string_view holder) {
  auto found = names_.find(holder);
  if (found == names_.end()) found = names_.emplace(std::string(holder), 0).first;
  return std::exchange(current_, &found->first);
}

void MemoryHolders::add(const void* data, std::size_t bytes, MemoryCategory category, const char* origin) {
  alive_[data] = {.bytes = bytes, .category = category, .holder = current_, .origin = origin};
}

void MemoryHolders::remove(const void* data) {
  alive_.erase(data);
}

std::string MemoryHolders::describe(MemoryCategory category, const char* origin) const {
  return label(category, current_, origin);
}

std::string MemoryHolders::describe_largest(std::size_t count) const {
  std::map<std::string, std::size_t> sums;
  for (const auto& [data, piece] : alive_) {
    sums[label(piece.category, piece.holder, piece.origin)] += piece.bytes;
  }
  std::vector<std::pair<std::string, std::size_t>> largest(sums.begin(), sums.end());
  std::ranges::stable_sort(largest, [](const auto& a, const auto& b) { return a.second > b.second; });
  if (largest.size() > count) largest.resize(count);
  std::string text;
  for (const auto& [who, bytes] : largest) {
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", who, format_bytes(static_cast<std::int64_t>(bytes)));
  }
  return text;
}

}  // namespace trireme
