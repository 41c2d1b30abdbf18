// The final error message of a job, in memory that a supervisor reads. It is available at once, while a
// launcher may delay the rank's output until it has ended the other ranks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

class LastWord {
 public:
  /// Longer messages are truncated.
  static constexpr std::size_t kTextBytes = 4096;

 private:
  // Shared between processes.
  struct Memory {
    std::atomic<std::uint32_t> state;  // a State
    std::uint32_t length;
    std::array<char, kTextBytes> text;
  };
  enum State : std::uint32_t { kNone, kBeingWritten, kWhole };

 public:
  static constexpr std::size_t kBytes = sizeof(Memory);

  /// `memory` is zero-initialised, aligned for 64-bit numbers and not used otherwise; several processes may
  /// map it.
  explicit LastWord(std::shared_ptr<void> memory) : memory_(std::move(memory)) {}

  /// Only the first message is stored. From any thread.
  void say(std::string_view message) noexcept;
  /// Empty until a message is completely written.
  std::optional<std::string> read() const;

 private:
  Memory& memory() const { return *static_cast<Memory*>(memory_.get()); }

  std::shared_ptr<void> memory_;
};

}  // namespace trireme
