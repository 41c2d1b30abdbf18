#include "runtime/data/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/base/mapped_file.h"
#include "runtime/data/protobuf_fields.h"
#include "runtime/data/sentencepiece_check.h"
#include "runtime/data/text_reader.h"
#include "runtime/data/token_file.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

std::string_view as_text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// True for lines of "base64 rank", the format of the original Llama 3 tokenizer.model.
bool is_tiktoken(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space % 4 != 0 || space == 0 || line.size() > 200) return false;
  return line.substr(space + 1).find_first_not_of("0123456789") == std::string_view::npos;
}

/// See SentencePieceFacts. The numbers of fields come from sentencepiece_model.proto.
bool is_plain_bpe(std::string_view model) {
  constexpr std::uint64_t kTrainer = 2, kNormalizer = 3;
  constexpr std::uint64_t kModelType = 3, kByteFallback = 35;
  constexpr std::uint64_t kCharsmap = 2, kDummyPrefix = 3, kRemovesSpaces = 4;
  constexpr std::uint64_t kBpe = 2;
  bool is_bpe = false, has_bytes = false, has_rules = false, adds_space = true, removes_spaces = true;
  const auto read_trainer = [&](const ProtobufField& field) {
    if (field.number == kModelType) is_bpe = field.integer == kBpe;
    if (field.number == kByteFallback) has_bytes = field.integer != 0;
  };
  const auto read_normalizer = [&](const ProtobufField& field) {
    if (field.number == kCharsmap) has_rules = !field.bytes.empty();
    if (field.number == kDummyPrefix) adds_space = field.integer != 0;
    if (field.number == kRemovesSpaces) removes_spaces = field.integer != 0;
  };
  visit_protobuf(model, [&](const ProtobufField& part) {
    if (part.number == kTrainer) visit_protobuf(part.bytes, read_trainer);
    if (part.number == kNormalizer) visit_protobuf(part.bytes, read_normalizer);
  });
  return is_bpe && has_bytes && !has_rules && !adds_space && !removes_spaces;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::filesystem::path& model) : path_(model) {
    const MappedFile file(model, "sentencepiece model");
    TRIREME_CHECK(!file.bytes().empty(), "sentencepiece model {} is empty (0 bytes)", model.string());
    // Models of 256,000 tokens take 4 MB.
    constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
    TRIREME_CHECK(file.bytes().size() <= kMaxBytes,
                  "{} is not a sentencepiece model: it has {} bytes, more than the maximum of {}",
                  model.string(), file.bytes().size(), kMaxBytes);
    TRIREME_CHECK(!is_tiktoken(as_text(file)),
                  "{} is not a sentencepiece model, but a tiktoken vocabulary; use the tokenizer.json of the "
                  "same model",
                  model.string());
    check_sentencepiece_model(as_text(file), model);
    load(as_text(file), processor_);
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      if (processor_.IsControl(id) || processor_.IsUnknown(id))
        controls_.emplace_back(processor_.IdToPiece(id), id);
    }
  }

  std::string_view kind() const override { return kSentencePieceTokenizer; }
  std::int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  std::string model_text() const override {
    return std::string(as_text(MappedFile(path_, "sentencepiece model")));
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    return encode_by(processor_, text);
  }
  std::string decode(std::span<const std::int32_t> ids) const override { return decode_by(processor_, ids); }

  std::vector<std::int32_t> encode_chat(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for (std::size_t begin = 0; begin < text.size();) {
      const auto [end, control] = next_control(text, begin);
      const std::string_view piece = text.substr(begin, end - begin);
      const auto more = begin == 0 ? encode(piece) : encode_by(unprefixed(), piece);
      ids.insert(ids.end(), more.begin(), more.end());
      if (control == nullptr) break;
      ids.push_back(control->second);
      begin = end + control->first.size();
    }
    return ids;
  }

  std::string decode_chat(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (std::size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
      const auto is_control = [&](std::int32_t id) {
        return std::ranges::find(controls_, id, &Control::second) != controls_.end();
      };
      if (is_control(ids[begin])) {
        text += processor_.IdToPiece(ids[end++]);
        continue;
      }
      while (end < ids.size() && !is_control(ids[end])) ++end;
      text += decode_by(unprefixed(), ids.subspan(begin, end - begin));
    }
    return text;
  }

  std::unordered_map<std::string, std::int64_t> pieces() const {
    std::unordered_map<std::string, std::int64_t> pieces;
    for (int id = 0; id < processor_.GetPieceSize(); ++id) pieces.emplace(processor_.IdToPiece(id), id);
    return pieces;
  }

  SentencePieceFacts facts() const {
    const auto text_of = [this](int id) { return id < 0 ? std::string() : processor_.IdToPiece(id); };
    SentencePieceFacts facts;
    facts.is_plain_bpe = is_plain_bpe(as_text(MappedFile(path_, "sentencepiece model")));
    facts.unk = text_of(processor_.unk_id());
    facts.bos = text_of(processor_.bos_id());
    facts.eos = text_of(processor_.eos_id());
    return facts;
  }

  std::vector<std::int32_t> document_separator() const override {
    if (const int eos = processor_.eos_id(); eos >= 0) return {eos};
    return encode("\n\n");
  }

 private:
  using Control = std::pair<std::string, std::int32_t>;

  std::vector<std::int32_t> encode_by(const sentencepiece::SentencePieceProcessor& processor,
                                      std::string_view text) const {
    std::vector<int> ids;
    const auto status = processor.Encode(text, &ids);
    TRIREME_CHECK(status.ok(), "sentencepiece model {} cannot encode {} bytes of text: {}", path_.string(),
                  text.size(), status.ToString());
    return {ids.begin(), ids.end()};
  }

  std::string decode_by(const sentencepiece::SentencePieceProcessor& processor,
                        std::span<const std::int32_t> ids) const {
    for (const std::int32_t id : ids)
      TRIREME_CHECK(id >= 0 && id < vocab_size(), "token {} is not in the vocabulary of {} tokens of {}", id,
                    vocab_size(), path_.string());
    std::string text;
    const auto status = processor.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    TRIREME_CHECK(status.ok(), "sentencepiece model {} cannot decode {} tokens: {}", path_.string(),
                  ids.size(), status.ToString());
    return text;
  }

  /// The library's trie throws, while its other parts return a status.
  void load(std::string_view model, sentencepiece::SentencePieceProcessor& processor) const {
    std::string refusal;
    try {
      const auto status = processor.LoadFromSerializedProto(model);
      if (!status.ok()) refusal = status.ToString();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      refusal = error.what();
    }
    TRIREME_CHECK(refusal.empty(), "{} is not a sentencepiece model: {}", path_.string(), refusal);
  }

  /// The model without its dummy prefix, a space before the text.
  const sentencepiece::SentencePieceProcessor& unprefixed() const {
    std::call_once(unprefixed_loaded_, [this] {
      // Field 3 of ModelProto, normalizer_spec, with add_dummy_prefix (field 3) = false. A field that occurs
      // twice in a protobuf message is merged.
      constexpr std::string_view kNoPrefix{"\x1a\x02\x18\x00", 4};
      load(model_text() + std::string(kNoPrefix), unprefixed_);
    });
    return unprefixed_;
  }

  /// The first control symbol from `begin` on, the longest if several begin there; null, at the end of the
  /// text, if there is none.
  std::pair<std::size_t, const Control*> next_control(std::string_view text, std::size_t begin) const {
    std::pair<std::size_t, const Control*> next{text.size(), nullptr};
    for (const Control& control : controls_) {
      const std::size_t at = text.find(control.first, begin);
      if (at == std::string_view::npos || at > next.first) continue;
      if (at < next.first || control.first.size() > next.second->first.size()) next = {at, &control};
    }
    return next;
  }

  std::filesystem::path path_;
  sentencepiece::SentencePieceProcessor processor_;
  std::vector<Control> controls_;  // also <unk>
  mutable std::once_flag unprefixed_loaded_;
  mutable sentencepiece::SentencePieceProcessor unprefixed_;
};

/// The lines of files, one after another, for the trainer. Our errors must not unwind through the trainer:
/// they end the iteration, and rethrow() throws them later.
class LineIterator final : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(std::span<const std::filesystem::path> paths) : paths_(paths) { Next(); }

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override {
    if (error_) return {sentencepiece::util::StatusCode::kDataLoss, "a text file cannot be read"};
    return {};
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  void Next() override {
    try {
      next_line();
    } catch (...) {
      error_ = std::current_exception();
      done_ = true;
    }
  }

 private:
  void next_line() {
    while (!file_ || position_ >= file_->text().size()) {
      if (next_file_ == paths_.size()) {
        done_ = true;
        return;
      }
      file_.emplace(paths_[next_file_++]);
      position_ = 0;
    }
    const std::string_view rest = file_->text().substr(position_);
    const std::string_view line = rest.substr(0, rest.find('\n'));
    position_ += line.size() + 1;
    line_.assign(line);
  }

  std::span<const std::filesystem::path> paths_;
  std::size_t next_file_ = 0;
  std::optional<TextReader> file_;
  std::size_t position_ = 0;
  std::string line_;
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& model) {
  return std::make_unique<SentencePieceTokenizer>(model);
}

std::unordered_map<std::string, std::int64_t> sentencepiece_pieces(const std::filesystem::path& model) {
  return SentencePieceTokenizer(model).pieces();
}

SentencePieceFacts sentencepiece_facts(const std::filesystem::path& model) {
  return SentencePieceTokenizer(model).facts();
}

void train_sentencepiece(std::span<const std::filesystem::path> inputs, const std::filesystem::path& model,
                         const SentencePieceTraining& options) {
  TRIREME_CHECK(!inputs.empty(), "no text was given to train the vocabulary of {}", model.string());
  TRIREME_CHECK(options.vocab_size > 0 && options.vocab_size <= kTokens16.max_vocab,
                "a vocabulary of {} tokens was requested {}; token files hold 1 to {}", options.vocab_size,
                model.string(), kTokens16.max_vocab);
  AtomicFile output(model);  // fail on an unwritable folder before the training
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(options.vocab_size)},
      {"character_coverage", std::to_string(options.character_coverage)},
      {"input_sentence_size", std::to_string(options.max_sentences)},
      {"shuffle_input_sentence", "true"},
      {"byte_fallback", "true"},
      // Keep the text unchanged: spaces, tabs, indentation and character forms.
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"split_digits", "true"},
      {"minloglevel", "2"},  // errors only
  };
  LineIterator lines(inputs);
  std::string serialized;
  sentencepiece::SetRandomGeneratorSeed(1);  // the same text gives the same vocabulary
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &lines, &serialized);
  lines.rethrow();
  TRIREME_CHECK(status.ok(), "cannot train a vocabulary of {} tokens for {}: {}", options.vocab_size,
                model.string(), status.ToString());
  output.writer().append(std::as_bytes(std::span(serialized)));
  output.commit();
}

}  // namespace trireme
