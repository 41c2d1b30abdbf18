#include "runtime/data/document_dataset.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/data/packing.h"
#include "runtime/data/permutation.h"

namespace trireme {

DocumentDataset::DocumentDataset(const Options& options) : options_(options), file_(options.path) {
  TRIREME_CHECK(options.sequence_length >= 2,
                "rows of {} tokens hold no document: with its class token it has two or more",
                options.sequence_length);
  TRIREME_CHECK(options.class_token >= 0 && options.class_token < options.vocab_size,
                "the class token {} is not below the vocabulary size {}", options.class_token,
                options.vocab_size);
  file_.tokens().check_vocab(options.vocab_size);
  const std::vector<Document>& documents = file_.documents();
  std::vector<std::int32_t> lengths;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    TRIREME_CHECK(options.targets == Targets::kTokens || documents[i].label >= 0,
                  "{}: document {} has no label", documents_of(options.path).string(), i);
    num_cut_ += documents[i].num_tokens + 1 > options.sequence_length ? 1 : 0;
    lengths.push_back(row_tokens(static_cast<std::int32_t>(i)));
  }
  if (options.pack) {
    rows_ = pack_rows(lengths, static_cast<std::int32_t>(options.sequence_length));
  } else {
    for (std::size_t i = 0; i < documents.size(); ++i) rows_.push_back({static_cast<std::int32_t>(i)});
  }
  most_targets_ = options.sequence_length;
  if (options.targets == Targets::kTokens) return;
  const auto most = std::ranges::max_element(rows_, {}, [](const auto& row) { return row.size(); });
  most_targets_ = static_cast<std::int64_t>(most->size());
}

std::int32_t DocumentDataset::row_tokens(std::int32_t document) const {
  const std::int64_t tokens = file_.documents()[static_cast<std::size_t>(document)].num_tokens;
  return static_cast<std::int32_t>(std::min(tokens + 1, options_.sequence_length));
}

std::size_t DocumentDataset::row_of(std::int64_t sample) const {
  const std::int64_t epoch = sample / num_samples();
  const Permutation order(num_samples(), options_.seed, static_cast<std::uint32_t>(epoch));
  return static_cast<std::size_t>(order(sample % num_samples()));
}

std::int64_t DocumentDataset::targets_of(std::size_t row) const {
  if (options_.targets == Targets::kLabels) return static_cast<std::int64_t>(rows_[row].size());
  std::int64_t count = 0;
  for (const std::int32_t document : rows_[row]) count += row_tokens(document) - 1;
  return count;
}

std::vector<std::int32_t> DocumentDataset::ends_of(std::size_t row) const {
  std::vector<std::int32_t> ends;
  std::int32_t end = 0;
  for (const std::int32_t document : rows_[row]) ends.push_back(end += row_tokens(document));
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
  batch.documents.key_bounds.resize(2 * tokens);
  batch.documents.positions.resize(tokens);
  batch.documents.types.resize(tokens);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    fill_row(rows[i], i * static_cast<std::size_t>(options_.sequence_length), batch);
  }
  file_.tokens().check_unchanged();
  return batch;
}

// Fills the row whose first token is token `at` of the batch.
void DocumentDataset::fill_row(std::size_t row, std::size_t at, HostBatch& batch) const {
  std::size_t begin = at;
  for (const std::int32_t index : rows_[row]) {
    const auto document = static_cast<std::size_t>(index);
    fill_document(file_.documents()[document], file_.first_token(document), begin, at, batch);
    begin += static_cast<std::size_t>(row_tokens(index));
  }
  const std::size_t end = at + static_cast<std::size_t>(options_.sequence_length);
  for (std::size_t t = begin; t < end; ++t) {  // padding: token 0 at position 0, which attends only to itself
    batch.documents.key_bounds[2 * t] = static_cast<std::int32_t>(t - at);
    batch.documents.key_bounds[2 * t + 1] = static_cast<std::int32_t>(t - at) + 1;
  }
}

void DocumentDataset::fill_document(const Document& document, std::int64_t first_token, std::size_t begin,
                                    std::size_t row_begin, HostBatch& batch) const {
  const std::int64_t length = std::min<std::int64_t>(document.num_tokens + 1, options_.sequence_length);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
  tokens[0] = options_.class_token;
  file_.tokens().read(first_token, length - 1, tokens.data() + 1);
  const auto largest = std::ranges::max_element(tokens), least = std::ranges::min_element(tokens);
  if (*largest >= options_.vocab_size || *least < 0) {
    throw Error(ErrorCode::kRuntime, "{} has changed: token {} is not below the vocabulary size {}",
                file_.tokens().path().string(), *largest, options_.vocab_size);
  }
  std::memcpy(batch.inputs.data() + begin * sizeof(std::int32_t), tokens.data(),
              tokens.size() * sizeof(std::int32_t));
  const auto first = static_cast<std::int32_t>(begin - row_begin);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const auto position = static_cast<std::int32_t>(t);
    batch.documents.key_bounds[2 * (begin + t)] = first;
    batch.documents.key_bounds[2 * (begin + t) + 1] = first + static_cast<std::int32_t>(length);
    batch.documents.positions[begin + t] = position;
    batch.documents.types[begin + t] =
        position > document.first_segment ? 1 : 0;  // the class token comes first
    if (options_.targets == Targets::kTokens && t > 0) batch.targets[begin + t] = tokens[t];
  }
  if (options_.targets == Targets::kLabels) batch.targets[begin] = document.label;
}

}  // namespace trireme
