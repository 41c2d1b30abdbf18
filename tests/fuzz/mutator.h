// Changes valid inputs into nearly valid ones, from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/random.h"

namespace trireme::fuzz {

/// The same seed gives the same inputs on every machine.
class Mutator {
 public:
  /// Changes that respect the format of an input; null: none.
  using Change = void (*)(std::string& text, Random& random);

  /// At least one of `seeds`.
  Mutator(std::uint64_t seed, std::vector<std::string> seeds, Change change_format = nullptr)
      : random_(seed), seeds_(std::move(seeds)), change_format_(change_format) {}

  /// One of the seeds with some changes, at most a megabyte.
  std::string next();

 private:
  void change(std::string& text);
  void change_bytes(std::string& text);
  void change_length(std::string& text);
  void put_number(std::string& text);
  void put_word(std::string& text);
  void repeat(std::string& text);

  std::size_t below(std::size_t bound) { return random_.below(bound); }
  bool one_in(std::size_t n) { return random_.one_in(n); }

  Random random_;
  std::vector<std::string> seeds_;
  Change change_format_;
};

}  // namespace trireme::fuzz
