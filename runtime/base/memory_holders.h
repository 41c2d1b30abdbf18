// The holders of an allocator's memory, for the message of a failed allocation.
//
// Each allocation has a holder and an origin. The holder, such as a block or a group of parameters, is the
// current scope of the allocator (MemoryHolderScope in allocator.h). The origin is the source file of the
// caller. Files are named for their op, so the origin of an activation is its op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

namespace trireme {

enum class MemoryCategory : std::uint8_t;

/// Not thread-safe: Allocator locks.
class MemoryHolders {
 public:
  /// Names the holder of allocations from now on. Returns the previous name, for restore().
  const std::string* enter(std::string_view holder);
  void restore(const std::string* holder) { current_ = holder; }

  /// `origin` is the path of a source file, a string literal, or empty.
  void add(const void* data, std::size_t bytes, MemoryCategory category, const char* origin);
  void remove(const void* data);

  /// "activations of blocks.3 (attention)": the description of an allocation made now.
  std::string describe(MemoryCategory category, const char* origin) const;
  /// The `count` largest holders: "gradients of blocks.0 (grad_accumulator) 12.00 MiB, ..."; empty when
  /// nothing is live.
  std::string describe_largest(std::size_t count) const;

 private:
  struct Piece {
    std::size_t bytes = 0;
    MemoryCategory category{};
    const std::string* holder = nullptr;
    const char* origin = "";
  };

  std::map<std::string, int, std::less<>> names_;  // their addresses are stable
  const std::string* current_ = nullptr;           // null: no holder
  std::unordered_map<const void*, Piece> alive_;
};

}  // namespace trireme
