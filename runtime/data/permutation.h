// A pseudo-random permutation of [0, size) in constant memory, with random access.
//
// [Note: training order] Sample i of a run is position i % size of epoch i / size, and its window is a
// function of (seed, epoch, position). So every rank finds its samples without communication, a resumed run
// continues at the right sample, and the order is the same for every number of ranks and micro-batch size.
#pragma once

#include <cstdint>

namespace trireme {

class Permutation {
 public:
  /// The permutation of `epoch` under `seed`. Throws Error(kInvalidInput) unless 1 <= size <= 2^62.
  Permutation(std::int64_t size, std::uint64_t seed, std::uint32_t epoch);

  std::int64_t size() const { return size_; }
  std::uint32_t epoch() const { return epoch_; }
  /// The value at `position` in [0, size()).
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::int64_t size_;
  std::uint64_t seed_;
  std::uint32_t epoch_;
  int left_bits_, right_bits_;
};

/// A number in [0, bound): a function of (seed, epoch, index), independent of the permutation.
std::int64_t epoch_offset(std::int64_t bound, std::uint64_t seed, std::uint32_t epoch, std::uint32_t index);

}  // namespace trireme
