#include "runtime/data/byte_pairs.h"

#include <queue>

#include "runtime/base/error.h"

namespace trireme {

BytePairs::BytePairs(Learned learned) : ids_(std::move(learned.ids)), whole_pieces_(learned.whole_pieces) {
  for (std::size_t byte = 0; byte < bytes_.size(); ++byte) {
    const auto found = ids_.find(std::string(1, static_cast<char>(byte)));
    TRIREME_CHECK(found != ids_.end(),
                  "its vocabulary has no token for the byte {}: only byte-level vocabularies are read", byte);
    bytes_[byte] = found->second;
  }
  merges_.reserve(learned.merges.size());
  for (std::size_t i = 0; i < learned.merges.size(); ++i) {
    const auto& [left, right] = learned.merges[i];
    const Merge merge{.rank = static_cast<std::int32_t>(i), .id = id_of(left + right, i)};
    // If a pair is listed twice, the last entry counts, as in Hugging Face's tokenizers.
    merges_.insert_or_assign(key(id_of(left, i), id_of(right, i)), merge);
  }
}

std::int32_t BytePairs::id_of(const std::string& token, std::size_t merge) const {
  const auto found = ids_.find(token);
  TRIREME_CHECK(found != ids_.end(), "its merge {} needs \"{}\", which is not in the vocabulary", merge,
                token);
  return found->second;
}

void BytePairs::encode(std::string_view piece, Ids& to) const {
  if (whole_pieces_) {
    if (const auto found = ids_.find(std::string(piece)); found != ids_.end()) {
      to.push_back(found->second);
      return;
    }
  }
  struct Symbol {
    std::int32_t id, previous, next;  // -1: none; a joined symbol's right half has id -1
  };
  struct Candidate {
    std::int32_t rank, left, left_id, right_id, joined;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  const auto size = static_cast<std::int32_t>(piece.size());
  std::vector<Symbol> symbols;
  for (std::int32_t i = 0; i < size; ++i) {
    symbols.push_back({.id = bytes_[static_cast<unsigned char>(piece[static_cast<std::size_t>(i)])],
                       .previous = i - 1,
                       .next = i + 1 < size ? i + 1 : -1});
  }
  const auto at = [&](std::int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto consider = [&](std::int32_t left) {
    if (left < 0 || at(left).next < 0) return;
    const std::int32_t right_id = at(at(left).next).id;
    const auto found = merges_.find(key(at(left).id, right_id));
    if (found == merges_.end()) return;
    candidates.push({found->second.rank, left, at(left).id, right_id, found->second.id});
  };
  for (std::int32_t i = 0; i < size; ++i) consider(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = at(best.left);
    // If one of the two was merged since, a newer candidate replaces this one.
    if (left.id != best.left_id || left.next < 0 || at(left.next).id != best.right_id) continue;
    Symbol& right = at(left.next);
    left.id = best.joined;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) at(left.next).previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (std::int32_t i = size > 0 ? 0 : -1; i >= 0; i = at(i).next) to.push_back(at(i).id);
}

}  // namespace trireme
