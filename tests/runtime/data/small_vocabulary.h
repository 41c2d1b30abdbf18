// Byte-level BPE vocabularies of a few merges, whose tokens can be derived by hand.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/bpe_model.h"

namespace trireme::testing {

/// A tokenizer.json: 256 bytes, then the results of the merges, then the added token <|endoftext|>.
inline nlohmann::json tokenizer_of(const std::vector<std::pair<std::string, std::string>>& merges) {
  using nlohmann::json;
  json vocab = json::object(), list = json::array();
  for (int byte = 0; byte < 256; ++byte) vocab[written_token(std::string(1, static_cast<char>(byte)))] = byte;
  for (const auto& [left, right] : merges) {
    list.push_back(written_token(left) + " " + written_token(right));
    const std::size_t next = vocab.size();
    vocab[written_token(left + right)] = next;
  }
  const auto added = static_cast<int>(vocab.size());
  return {{"added_tokens", {{{"id", added}, {"content", "<|endoftext|>"}, {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

}  // namespace trireme::testing
