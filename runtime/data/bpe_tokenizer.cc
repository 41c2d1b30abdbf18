// Byte-level BPE, the tokens of GPT-2 and Llama 3.
#include <array>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/bpe_model.h"
#include "runtime/data/pre_tokenizer.h"
#include "runtime/data/text_set.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

// Document end and document begin tokens in the vocabularies of GPT-2 and Llama 3.
constexpr const char* kEnds[] = {"<|endoftext|>", "<|end_of_text|>", "</s>"};
constexpr const char* kBegin = "<|begin_of_text|>";

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(const std::filesystem::path& path, BpeModel model)
      : path_(path), text_(std::move(model.text)) {
    for (const auto& [bytes, id] : model.learned.ids) name_token(id, bytes);
    for (const auto& [text, id] : model.unreachable) name_token(id, text);
    std::array<std::vector<std::string>, 2> added;
    for (const BpeModel::Added& token : model.added) {
      const std::string& known = tokens_.emplace(token.id, token.content).first->second;
      TRIREME_CHECK(known == token.content, "its added token \"{:.100}\" has the id {} of another token",
                    token.content, token.id);
      added_.emplace(token.content, token.id);
      added[token.normalized ? 1 : 0].push_back(token.content);
    }
    for (std::vector<std::string>& texts : added) {
      if (!texts.empty()) added_sets_.emplace_back(std::move(texts));
    }
    for (const std::string& pattern : model.patterns) patterns_.emplace_back(pattern);
    pairs_.emplace(std::move(model.learned));
  }

  std::string_view kind() const override { return kBpeTokenizer; }
  std::int64_t vocab_size() const override { return std::int64_t{tokens_.rbegin()->first} + 1; }
  std::string model_text() const override { return text_; }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    Cache cache;
    MatchBudget budget(text, patterns_.size() + added_sets_.size());
    try {
      encode_from({.text = text, .next_set = 0}, cache, budget, ids);
    } catch (const Error& error) {
      throw Error(error.code(), "tokenizer {}: {}", path_.string(), error.what());
    }
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      const auto found = tokens_.find(id);
      TRIREME_CHECK(found != tokens_.end(), "token {} is not in the vocabulary of {} tokens of {}", id,
                    tokens_.size(), path_.string());
      text += found->second;
    }
    return text;
  }

  std::vector<std::int32_t> document_separator() const override {
    for (const char* end : kEnds) {
      const auto found = added_.find(end);
      if (found == added_.end()) continue;
      const auto begin = added_.find(kBegin);
      if (begin == added_.end()) return {found->second};
      return {found->second, begin->second};
    }
    return encode("\n\n");
  }

 private:
  /// Tokens of words seen before; words repeat often.
  using Cache = std::unordered_map<std::string_view, std::vector<std::int32_t>>;

  void name_token(std::int32_t id, const std::string& bytes) {
    const bool is_new = tokens_.emplace(id, bytes).second;
    TRIREME_CHECK(is_new, "two of its tokens have the id {}", id);
  }

  struct Part {
    std::string_view text;
    std::size_t next_set;  // the first set of added tokens not yet matched
  };
  void encode_from(const Part& part, Cache& cache, MatchBudget& budget,
                   std::vector<std::int32_t>& ids) const {
    if (part.next_set == added_sets_.size()) return encode_plain(part.text, cache, budget, ids);
    added_sets_[part.next_set].split(part.text, budget, [&](std::string_view text, bool is_added) {
      if (is_added) {
        ids.push_back(added_.find(text)->second);
      } else {
        encode_from({.text = text, .next_set = part.next_set + 1}, cache, budget, ids);
      }
    });
  }

  void encode_plain(std::string_view text, Cache& cache, MatchBudget& budget,
                    std::vector<std::int32_t>& ids) const {
    pre_tokenize(patterns_, text, budget, [&](std::string_view piece) {
      const auto [found, is_new] = cache.try_emplace(piece);
      if (is_new) pairs_->encode(piece, found->second);
      ids.insert(ids.end(), found->second.begin(), found->second.end());
    });
  }

  std::filesystem::path path_;
  std::string text_;
  std::map<std::int32_t, std::string> tokens_;  // as bytes
  std::map<std::string, std::int32_t, std::less<>> added_;
  std::vector<TextSet> added_sets_;  // applied in order, each to the text between matches of the previous one
  std::vector<TextPattern> patterns_;
  std::optional<BytePairs> pairs_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_bpe(const std::filesystem::path& path) {
  BpeModel model = read_bpe_model(path);
  std::error_code ignored;
  const std::filesystem::path json = path / "tokenizer.json";
  try {
    return std::make_unique<BpeTokenizer>(std::filesystem::exists(json, ignored) ? json : path,
                                          std::move(model));
  } catch (const Error& error) {
    throw Error(error.code(), "tokenizer {}: {}", path.string(), error.what());
  }
}

}  // namespace trireme
