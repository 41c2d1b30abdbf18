// Byte-pair encoding of one piece of text (Sennrich et al. 2016): merges neighbouring pairs, always the pair
// that was learned first, until no learned pair is left.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trireme {

class BytePairs {
 public:
  using Ids = std::vector<std::int32_t>;
  struct Learned {
    std::unordered_map<std::string, std::int32_t> ids;        // of tokens, keyed by their bytes
    std::vector<std::pair<std::string, std::string>> merges;  // in the order of learning
    bool whole_pieces = false;  // a piece that is a token becomes that token, whatever the merges give
  };

  /// Throws Error(kInvalidInput) if a byte is not a token, or if a merge uses or produces a text that is not
  /// a token.
  explicit BytePairs(Learned learned);

  /// Appends the tokens of `piece`.
  void encode(std::string_view piece, Ids& to) const;

 private:
  struct Merge {
    std::int32_t rank, id;
  };
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::int32_t id_of(const std::string& token, std::size_t merge) const;

  std::unordered_map<std::string, std::int32_t> ids_;
  std::array<std::int32_t, 256> bytes_{};
  std::unordered_map<std::uint64_t, Merge> merges_;
  bool whole_pieces_;
};

}  // namespace trireme
