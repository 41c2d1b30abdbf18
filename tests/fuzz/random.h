// Numbers from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <random>
#include <string_view>

namespace trireme::fuzz {

/// The same seed gives the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// Seeded with the bytes of an input, for decisions that are not part of it.
  explicit Random(std::string_view input) : engine_(std::hash<std::string_view>{}(input)) {}

  /// In [0, bound); 0 for 0.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : engine_() % bound; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class List>
  decltype(auto) one_of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace trireme::fuzz
