// A ring of buffers for asynchronous copies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <list>

#include "kernels/cuda/device/handle.h"

namespace trireme::cuda {

/// `Slot` has an Event `done`, which is recorded after its last use.
template <class Slot>
class SlotRing {
 public:
  explicit SlotRing(std::size_t most) : most_(most) {}

  /// Raises the maximum number of slots to at least `most`.
  void allow(std::size_t most) { most_ = std::max(most_, most); }

  /// Makes all slots up to the maximum.
  template <class Make>
  void fill(Make make) {
    while (slots_.size() < most_) slots_.emplace_back(make());
  }

  /// Returns a slot that the card no longer uses. Without one, makes a new slot with `make()`. At the maximum
  /// number of slots, waits for the oldest one; the host is then that far ahead of the card. Skips the last
  /// `held` < `most` slots, which were acquired but not yet used.
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
  std::list<Slot> slots_;  // in order of last use, oldest first
};

}  // namespace trireme::cuda
