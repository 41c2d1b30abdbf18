// Changes valid inputs into nearly valid ones, from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace trireme::fuzz {

/// The same seed gives the same inputs on every machine.
class Mutator {
 public:
  /// At least one of `seeds`.
  Mutator(std::uint64_t seed, std::vector<std::string> seeds) : random_(seed), seeds_(std::move(seeds)) {}

  /// One of the seeds with some changes, of a megabyte at most.
  std::string next();

 private:
  void change(std::string& text);
  void change_bytes(std::string& text);
  void change_length(std::string& text);
  void put_number(std::string& text);
  void put_word(std::string& text);
  void repeat(std::string& text);

  /// In [0, bound); 0 for 0.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  bool one_in(std::size_t n) { return below(n) == 0; }

  std::mt19937_64 random_;
  std::vector<std::string> seeds_;
};

}  // namespace trireme::fuzz
