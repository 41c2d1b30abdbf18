// Buffers that copies use in turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <list>

#include "kernels/cuda/device/handle.h"

namespace trireme::cuda {

/// `Slot` has an Event `done`, recorded behind its last use.
template <class Slot>
class SlotRing {
 public:
  explicit SlotRing(std::size_t most) : most_(most) {}

  /// At least so many from now on.
  void allow(std::size_t most) { most_ = std::max(most_, most); }

  /// Makes all that there may be.
  template <class Make>
  void fill(Make make) {
    while (slots_.size() < most_) slots_.emplace_back(make());
  }

  /// One that the card is done with; a new one of `make()` where there is none; at `most` slots the oldest,
  /// for which the host waits, being that far ahead of the card. None of the last `held` < `most` slots,
  /// which were acquired and not used yet.
  template <class Make>
  Slot& acquire(Make make, std::size_t held = 0) {
    const auto end = std::prev(slots_.end(), static_cast<std::ptrdiff_t>(held));
    auto slot = std::find_if(slots_.begin(), end, [](const Slot& s) { return s.done.passed(); });
    if (slot == end) {
      if (slots_.size() < most_) return slots_.emplace_back(make());
      slot = slots_.begin();
      slot->done.wait();
    }
    slots_.splice(slots_.end(), slots_, slot);
    return slots_.back();
  }

 private:
  std::size_t most_;
  std::list<Slot> slots_;  // in order of their last use, the oldest first
};

}  // namespace trireme::cuda
