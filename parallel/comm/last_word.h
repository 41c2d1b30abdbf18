// The message with which a rank ends its job, in memory that a supervisor reads: it is there at once, where a
// launcher may hold the rank's output back until it has ended the others.
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
  /// Longer messages are cut.
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

  /// `memory` is zero, aligned for 64-bit numbers and used for nothing else; several processes may map it.
  explicit LastWord(std::shared_ptr<void> memory) : memory_(std::move(memory)) {}

  /// The first one counts. From any thread.
  void say(std::string_view message) noexcept;
  /// Nothing while nobody has said one to its end.
  std::optional<std::string> read() const;

 private:
  Memory& memory() const { return *static_cast<Memory*>(memory_.get()); }

  std::shared_ptr<void> memory_;
};

}  // namespace trireme
