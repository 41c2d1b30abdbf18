#include "parallel/comm/last_word.h"

#include <algorithm>
#include <cstring>

namespace trireme {

void LastWord::say(std::string_view message) noexcept {
  Memory& memory = this->memory();
  std::uint32_t none = kNone;
  if (!memory.state.compare_exchange_strong(none, kBeingWritten)) return;
  const std::size_t length = std::min(message.size(), kTextBytes);
  std::memcpy(memory.text.data(), message.data(), length);
  memory.length = static_cast<std::uint32_t>(length);
  memory.state.store(kWhole, std::memory_order_release);
}

std::optional<std::string> LastWord::read() const {
  const Memory& memory = this->memory();
  if (memory.state.load(std::memory_order_acquire) != kWhole) return std::nullopt;
  return std::string(memory.text.data(), std::min<std::size_t>(memory.length, kTextBytes));
}

}  // namespace trireme
