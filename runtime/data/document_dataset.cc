#include "runtime/data/document_dataset.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/data/packing.h"
#include "runtime/data/permutation.h"

namespace trireme {

DocumentDataset::DocumentDataset(const Options& options) : options_(options), file_(options.path) {
  const bool is_marked = options.targets == Targets::kNextTokens;
  TRIREME_CHECK(options.sequence_length >= 2,
                "rows of {} tokens hold no document: with its class token it has two or more",
                options.sequence_length);
  TRIREME_CHECK(is_marked || (options.class_token >= 0 && options.class_token < options.vocab_size),
                "the class token {} is not below the vocabulary size {}", options.class_token,
                options.vocab_size);
  TRIREME_CHECK(is_marked || options.too_long == TooLong::kCutEnd,
                "only documents with marked targets may lose their beginning or be dropped");
  file_.tokens().check_vocab(options.vocab_size);
  if (is_marked) {
    marks_.emplace(marks_of(options.path));
    TRIREME_CHECK(marks_->num_tokens() == file_.tokens().num_tokens(), "{} has {} marks for {} tokens",
                  marks_->path().string(), marks_->num_tokens(), file_.tokens().num_tokens());
    marks_->check_vocab(2);
  }
  add_pieces();
  TRIREME_CHECK(!pieces_.empty(),
                "{}: no document has a target within {} tokens: {} are longer than a row, {} have no target; "
                "use longer rows",
                options.path.string(), options.sequence_length, num_too_long_, num_without_targets_);
  if (options.pack) {
    std::vector<std::int32_t> lengths;
    for (const Piece& piece : pieces_) lengths.push_back(piece.tokens);
    rows_ = pack_rows(lengths, static_cast<std::int32_t>(options.sequence_length));
  } else {
    for (std::size_t i = 0; i < pieces_.size(); ++i) rows_.push_back({static_cast<std::int32_t>(i)});
  }
  most_targets_ = options.sequence_length;
  if (options.targets != Targets::kLabels) return;
  const auto most = std::ranges::max_element(rows_, {}, [](const auto& row) { return row.size(); });
  most_targets_ = static_cast<std::int64_t>(most->size());
}

void DocumentDataset::add_pieces() {
  const std::vector<Document>& documents = file_.documents();
  for (std::size_t i = 0; i < documents.size(); ++i) {
    Piece piece{.document = i, .first_token = file_.first_token(i), .tokens = documents[i].num_tokens};
    if (options_.targets == Targets::kNextTokens) {
      add_marked(piece);
      continue;
    }
    TRIREME_CHECK(options_.targets == Targets::kTokens || documents[i].label >= 0,
                  "{}: document {} has no label", documents_of(options_.path).string(), i);
    num_too_long_ += documents[i].num_tokens + 1 > options_.sequence_length ? 1 : 0;
    const std::int64_t with_class = std::int64_t{documents[i].num_tokens} + 1;
    piece.tokens = static_cast<std::int32_t>(std::min(with_class, options_.sequence_length));
    piece.targets = options_.targets == Targets::kLabels ? 1 : piece.tokens - 1;
    pieces_.push_back(piece);
  }
}

void DocumentDataset::add_marked(Piece piece) {
  const std::int64_t excess = std::int64_t{piece.tokens} - 1 - options_.sequence_length;
  num_too_long_ += excess > 0 ? 1 : 0;
  if (excess > 0 && options_.too_long == TooLong::kDrop) return;
  if (excess > 0 && options_.too_long == TooLong::kCutBeginning) piece.first_token += excess;
  piece.tokens =
      static_cast<std::int32_t>(std::min(piece.tokens - std::int64_t{1}, options_.sequence_length));
  std::vector<std::int32_t> marks(static_cast<std::size_t>(piece.tokens));
  marks_->read(piece.first_token + 1, piece.tokens, marks.data());
  piece.targets = static_cast<std::int32_t>(std::ranges::count(marks, 1));
  if (piece.targets > 0) {
    pieces_.push_back(piece);
  } else {
    ++num_without_targets_;
  }
}

std::int64_t DocumentDataset::num_filled() const {
  std::int64_t tokens = 0;
  for (const Piece& piece : pieces_) tokens += piece.tokens;
  return tokens;
}

std::size_t DocumentDataset::row_of(std::int64_t sample) const {
  const std::int64_t epoch = sample / num_samples();
  const Permutation order(num_samples(), options_.seed, static_cast<std::uint32_t>(epoch));
  return static_cast<std::size_t>(order(sample % num_samples()));
}

std::int64_t DocumentDataset::targets_of(std::size_t row) const {
  std::int64_t count = 0;
  for (const std::int32_t piece : rows_[row]) count += pieces_[static_cast<std::size_t>(piece)].targets;
  return count;
}

std::vector<std::int32_t> DocumentDataset::ends_of(std::size_t row) const {
  std::vector<std::int32_t> ends;
  std::int32_t end = 0;
  for (const std::int32_t piece : rows_[row])
    ends.push_back(end += pieces_[static_cast<std::size_t>(piece)].tokens);
  return ends;
}

std::vector<std::int32_t> DocumentDataset::train_documents(std::int64_t sample) const {
  return ends_of(row_of(sample));
}

std::vector<std::int32_t> DocumentDataset::sequential_documents(std::int64_t sample) const {
  return ends_of(static_cast<std::size_t>(sample));
}

std::int64_t DocumentDataset::num_train_targets(std::int64_t first, std::int64_t count) const {
  std::int64_t num_targets = 0;
  for (std::int64_t sample = first; sample < first + count; ++sample)
    num_targets += targets_of(row_of(sample));
  return num_targets;
}

std::int64_t DocumentDataset::num_sequential_targets(std::int64_t first, std::int64_t count) const {
  std::int64_t num_targets = 0;
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    num_targets += targets_of(static_cast<std::size_t>(sample));
  }
  return num_targets;
}

HostBatch DocumentDataset::read_train(std::int64_t first, std::int64_t count) const {
  std::vector<std::size_t> rows;
  for (std::int64_t sample = first; sample < first + count; ++sample) rows.push_back(row_of(sample));
  return read(rows);
}

HostBatch DocumentDataset::read_sequential(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first >= 0 && count >= 0 && first + count <= num_samples(),
                "samples {} to {} were requested, but there are only {}", first, first + count - 1,
                num_samples());
  std::vector<std::size_t> rows;
  for (std::int64_t sample = first; sample < first + count; ++sample)
    rows.push_back(static_cast<std::size_t>(sample));
  return read(rows);
}

HostBatch DocumentDataset::read(const std::vector<std::size_t>& rows) const {
  const Shape shape{static_cast<std::int64_t>(rows.size()), options_.sequence_length};
  const auto tokens = static_cast<std::size_t>(shape.num_elems());
  HostBatch batch{.input_shape = shape,
                  .target_shape = shape,
                  .inputs = std::vector<std::byte>(tokens * sizeof(std::int32_t)),
                  .targets = std::vector<std::int32_t>(tokens, -1)};
  if (options_.pack || options_.targets != Targets::kNextTokens) {
    batch.documents.key_bounds.resize(2 * tokens);
    batch.documents.positions.resize(tokens);
    batch.documents.types.resize(tokens);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    fill_row(rows[i], i * static_cast<std::size_t>(options_.sequence_length), batch);
  }
  file_.tokens().check_unchanged();
  if (marks_) marks_->check_unchanged();
  return batch;
}

// Fills the row whose first token is token `at` of the batch.
void DocumentDataset::fill_row(std::size_t row, std::size_t at, HostBatch& batch) const {
  std::size_t begin = at;
  for (const std::int32_t index : rows_[row]) {
    const Piece& piece = pieces_[static_cast<std::size_t>(index)];
    fill_piece(piece, begin, at, batch);
    begin += static_cast<std::size_t>(piece.tokens);
  }
  if (batch.documents.empty()) return;
  const std::size_t end = at + static_cast<std::size_t>(options_.sequence_length);
  for (std::size_t t = begin; t < end; ++t) {  // padding: token 0 at position 0, which attends only to itself
    batch.documents.key_bounds[2 * t] = static_cast<std::int32_t>(t - at);
    batch.documents.key_bounds[2 * t + 1] = static_cast<std::int32_t>(t - at) + 1;
  }
}

// The tokens of the row; with kNextTokens, followed by the last target.
std::vector<std::int32_t> DocumentDataset::read_tokens(const Piece& piece) const {
  const bool is_marked = options_.targets == Targets::kNextTokens;
  const std::int64_t from_file = is_marked ? piece.tokens + std::int64_t{1} : piece.tokens - std::int64_t{1};
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(from_file));
  file_.tokens().read(piece.first_token, from_file, tokens.data());
  if (!is_marked) tokens.insert(tokens.begin(), options_.class_token);
  const auto largest = std::ranges::max_element(tokens), least = std::ranges::min_element(tokens);
  if (*largest >= options_.vocab_size || *least < 0) {
    throw Error(ErrorCode::kRuntime, "{} has changed: token {} is not below the vocabulary size {}",
                file_.tokens().path().string(), *largest, options_.vocab_size);
  }
  return tokens;
}

void DocumentDataset::fill_piece(const Piece& piece, std::size_t begin, std::size_t row_begin,
                                 HostBatch& batch) const {
  const std::vector<std::int32_t> tokens = read_tokens(piece);
  const auto length = static_cast<std::size_t>(piece.tokens);
  std::memcpy(batch.inputs.data() + begin * sizeof(std::int32_t), tokens.data(),
              length * sizeof(std::int32_t));
  const Document& document = file_.documents()[piece.document];
  switch (options_.targets) {
    case Targets::kTokens:
      std::copy(tokens.begin() + 1, tokens.end(), batch.targets.data() + begin + 1);
      break;
    case Targets::kLabels:
      batch.targets[begin] = document.label;
      break;
    case Targets::kNextTokens: {
      std::vector<std::int32_t> marks(length);
      marks_->read(piece.first_token + 1, piece.tokens, marks.data());
      for (std::size_t t = 0; t < length; ++t)
        if (marks[t] == 1) batch.targets[begin + t] = tokens[t + 1];
      break;
    }
  }
  if (batch.documents.empty()) return;
  const auto first = static_cast<std::int32_t>(begin - row_begin);
  for (std::size_t t = 0; t < length; ++t) {
    const auto position = static_cast<std::int32_t>(t);
    batch.documents.key_bounds[2 * (begin + t)] = first;
    batch.documents.key_bounds[2 * (begin + t) + 1] = first + piece.tokens;
    batch.documents.positions[begin + t] = position;
    const bool has_segments = options_.targets != Targets::kNextTokens;
    batch.documents.types[begin + t] =
        has_segments && position > document.first_segment ? 1 : 0;  // the class token comes first
  }
}

}  // namespace trireme
