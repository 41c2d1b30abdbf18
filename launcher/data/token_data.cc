#include "launcher/data/token_data.h"

#include <algorithm>
#include <span>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/data/document_dataset.h"
#include "runtime/data/document_file.h"
#include "runtime/data/masked_tokens.h"
#include "runtime/data/synthetic_tokens.h"
#include "runtime/data/token_dataset.h"
#include "runtime/data/token_shards.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Per pass of synthetic data; its training samples never repeat, in any pass.
constexpr std::int64_t kSyntheticTokenSamples = 1024;

/// The path of the tokens of data.train or data.eval. In a prepared folder, the file for that key.
fs::path shards_of(const std::string& path, const char* prepared_name) {
  const bool prepared = fs::is_directory(path) && fs::exists(fs::path(path) / DatasetInfo::kFileName);
  if (!prepared) return path;
  for (const fs::path& name : {fs::path(prepared_name), documents_of(prepared_name), marks_of(prepared_name)})
    check_is_within({.folder = path, .name = name.string(), .what = "data of dataset.json"});
  return fs::path(path) / prepared_name;
}

/// data.mask_token, or the last token of the vocabulary if the job does not set it.
std::int64_t mask_token(const JobConfig& config) {
  return config.data.mask_token > 0 ? config.data.mask_token : config.model.vocab - 1;
}

// Hashes ids independently of their storage width. The number of tokens counts too, because windows end with
// a shard.
void hash_tokens(const TokenFile& tokens, ByteHash& hash) {
  constexpr std::int64_t kPiece = 1 << 16;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(kPiece, tokens.num_tokens())));
  const std::int64_t num_tokens = tokens.num_tokens();
  hash.update(std::as_bytes(std::span(&num_tokens, 1)));
  for (std::int64_t first = 0; first < num_tokens; first += kPiece) {
    const std::int64_t count = std::min(kPiece, num_tokens - first);
    tokens.read(first, count, ids.data());
    hash.update(std::as_bytes(std::span(ids).first(static_cast<std::size_t>(count))));
  }
}

DataFingerprint fingerprint_of(const TokenDataset& tokens) {
  ByteHash hash;
  for (const TokenFile& shard : tokens.shards()) hash_tokens(shard, hash);
  return {.contents = fmt::format("{} tokens", tokens.num_tokens()), .hash = hash.value()};
}

DataFingerprint fingerprint_of(const DocumentDataset& data) {
  const DocumentFile& file = data.file();
  ByteHash hash;
  hash_tokens(file.tokens(), hash);
  if (data.marks()) hash_tokens(*data.marks(), hash);
  hash.update(std::as_bytes(std::span(file.documents())));
  return {.contents = fmt::format("{} documents", file.documents().size()), .hash = hash.value()};
}

/// Refuses conversations as a stream of tokens, in which every token would be a target.
void check_unmarked(const fs::path& tokens) {
  const fs::path marks = marks_of(tokens);
  std::error_code error;
  TRIREME_CHECK(
      !fs::exists(marks, error),
      "{} marks the targets of conversations, and data.kind = \"tokens\" would train on all tokens: "
      "set data.kind = \"chat\"; where all are meant, prepare the data with --targets all",
      marks.string());
}

std::shared_ptr<const Dataset> open_tokens(const JobConfig& config, const char* key, const fs::path& path,
                                           bool read_whole, std::optional<DataFingerprint>& fingerprint) {
  try {
    check_unmarked(path);
    const auto tokens = std::make_shared<TokenDataset>(
        TokenDataset::Options{.path = path,
                              .sequence_length = config.model.seq_len,
                              .seed = static_cast<std::uint64_t>(config.train.seed),
                              .vocab_size = config.model.vocab});
    if (read_whole) {
      tokens->check_vocab(config.model.vocab);
      fingerprint = fingerprint_of(*tokens);
    }
    return tokens;
  } catch (const Error& error) {
    throw error.saying(fmt::format("{}: {}", key, error.what()));
  }
}

// For measuring blocks, also of a classifier: ids that are valid tokens and labels.
std::shared_ptr<const Dataset> synthetic_tokens(const JobConfig& config) {
  const std::int64_t vocab = config.model.vocab;
  return std::make_shared<SyntheticTokens>(SyntheticTokens::Options{
      .num_samples = kSyntheticTokenSamples,
      .sequence_length = config.model.seq_len,
      .vocab_size = config.model.task == ModelTask::kClassify ? std::min(vocab, config.model.classes) : vocab,
      .seed = static_cast<std::uint64_t>(config.train.seed)});
}

DocumentDataset::Targets targets_of(const JobConfig& config) {
  using Targets = DocumentDataset::Targets;
  if (config.data.kind == DataKind::kChat) return Targets::kNextTokens;
  return config.model.task == ModelTask::kClassify ? Targets::kLabels : Targets::kTokens;
}

/// Logs how the documents of `key` fill the rows. Warns of those that were cut or left out.
void log_rows(const JobConfig& config, const std::string& key, const DocumentDataset& data) {
  const std::size_t documents = data.file().documents().size();
  if (config.data.kind == DataKind::kChat) {
    const double places = static_cast<double>(data.num_samples()) * static_cast<double>(config.model.seq_len);
    log_info(fmt::format("{}: {} conversations in {} rows of {} tokens, {:.1f} % of them filled{}", key,
                         documents, data.num_samples(), config.model.seq_len,
                         100.0 * static_cast<double>(data.num_filled()) / places,
                         config.data.pack ? "" : " (data.pack = true fills more)"));
  }
  if (data.num_without_targets() > 0) {
    log_warning(
        fmt::format("{}: {} of {} conversations have no target within model.seq_len = {} and are left out",
                    key, data.num_without_targets(), documents, config.model.seq_len));
  }
  if (data.num_too_long() == 0) return;
  const bool drops = config.data.too_long == DocumentDataset::TooLong::kDrop;
  log_warning(fmt::format("{}: {} of {} documents are longer than model.seq_len = {} and are {}", key,
                          data.num_too_long(), documents, config.model.seq_len,
                          drops ? "dropped"
                          : config.data.too_long == DocumentDataset::TooLong::kCutBeginning
                              ? "cut at the beginning"
                              : "cut"));
}

/// `names` receives the class names, if known.
std::shared_ptr<const Dataset> open_documents(const JobConfig& config, const char* key,
                                              const std::string& path, const char* prepared_name,
                                              bool read_whole, std::vector<std::string>& names,
                                              std::optional<DataFingerprint>& fingerprint) {
  const bool classifies = config.model.task == ModelTask::kClassify;
  const std::int64_t token = config.data.class_token > 0 ? config.data.class_token : mask_token(config);
  try {
    if (const auto prepared = find_prepared_data(path); prepared && classifies)
      names = prepared->info.classes;
    const auto documents = std::make_shared<DocumentDataset>(
        DocumentDataset::Options{.path = shards_of(path, prepared_name),
                                 .sequence_length = config.model.seq_len,
                                 .pack = config.data.pack,
                                 .too_long = config.data.too_long,
                                 .class_token = static_cast<std::int32_t>(token),
                                 .targets = targets_of(config),
                                 .seed = static_cast<std::uint64_t>(config.train.seed),
                                 .vocab_size = config.model.vocab});
    TRIREME_CHECK(!classifies || documents->file().max_label() < config.model.classes,
                  "label {} of {} is not below model.classes = {}", documents->file().max_label(), path,
                  config.model.classes);
    if (!read_whole) return documents;
    log_rows(config, fmt::format("{} = \"{}\"", key, path), *documents);
    fingerprint = fingerprint_of(*documents);
    return documents;
  } catch (const Error& error) {
    throw error.saying(fmt::format("{}: {}", key, error.what()));
  }
}

// A loss over another vocabulary's tokens would be meaningless.
void check_same_tokenizer(const DataSection& data) {
  const auto train = find_prepared_data(data.train), eval = find_prepared_data(data.eval);
  if (!train || !eval) return;  // plain token files do not record a tokenizer
  const TokenizerRecord of_train = tokenizer_of(*train), of_eval = tokenizer_of(*eval);
  TRIREME_CHECK(
      is_same(of_train, of_eval),
      "data.eval = \"{}\" was made with the tokenizer {}, data.train = \"{}\" with {}: prepare both "
      "with the same --tokenizer",
      data.eval, to_string(of_eval), data.train, to_string(of_train));
}

SampleSpec token_sample_spec(const JobConfig& config) {
  return {.input = {config.model.seq_len},
          .input_dtype = DType::kInt32,
          .target = {config.model.seq_len},
          // Without packing, a causal model needs no bounds.
          .documents = config.data.kind == DataKind::kDocuments ||
                       (config.data.kind == DataKind::kChat && config.data.pack)};
}

void open_training(const JobConfig& config, bool read_whole, JobData& data) {
  data.train = is_of_documents(config.data.kind)
                   ? open_documents(config, "data.train", config.data.train, "train.bin", read_whole,
                                    data.train_classes, data.train_fingerprint)
                   : open_tokens(config, "data.train", shards_of(config.data.train, "train.bin"), read_whole,
                                 data.train_fingerprint);
}

void open_token_evaluation(const JobConfig& config, bool read_whole, JobData& data) {
  data.eval = is_of_documents(config.data.kind)
                  ? open_documents(config, "data.eval", config.data.eval, "eval.bin", read_whole,
                                   data.eval_classes, data.eval_fingerprint)
                  : open_tokens(config, "data.eval", shards_of(config.data.eval, "eval.bin"), read_whole,
                                data.eval_fingerprint);
}

JobData open_token_eval_data(const JobConfig& config, bool read_whole) {
  if (config.data.kind == DataKind::kSynthetic) return {.eval = synthetic_tokens(config)};
  JobData data;
  open_token_evaluation(config, read_whole, data);
  return data;
}

JobData open_token_data(const JobConfig& config, bool read_whole) {
  if (config.data.kind == DataKind::kSynthetic) {
    const auto data = synthetic_tokens(config);
    return {.train = data, .eval = config.data.eval.empty() ? nullptr : data};
  }
  JobData data;
  open_training(config, read_whole, data);
  if (config.data.eval.empty()) return data;
  check_same_tokenizer(config.data);
  open_token_evaluation(config, read_whole, data);
  return data;
}

std::shared_ptr<const Dataset> masked(const JobConfig& config, std::shared_ptr<const Dataset> tokens) {
  if (tokens == nullptr) return nullptr;
  return std::make_shared<MaskedTokens>(
      MaskedTokens::Options{.tokens = std::move(tokens),
                            .seed = static_cast<std::uint64_t>(config.train.seed),
                            .probability = config.data.mask_probability,
                            .mask_token = static_cast<std::int32_t>(mask_token(config)),
                            .vocab_size = config.model.vocab});
}

SampleSpec masked_sample_spec(const JobConfig& config) {
  SampleSpec spec = token_sample_spec(config);
  if (config.model.task == ModelTask::kMaskedTokens) {
    spec.target_positions = MaskedTokens::num_targets(config.model.seq_len, config.data.mask_probability);
  }
  return spec;
}

JobData masked(const JobConfig& config, JobData data) {
  if (config.model.task == ModelTask::kClassify) return data;
  data.train = masked(config, std::move(data.train));
  data.eval = masked(config, std::move(data.eval));
  return data;
}

std::string describe_tokens(const JobConfig& config) {
  return fmt::format("{} tokens", config.model.seq_len);
}

}  // namespace

std::optional<PreparedData> find_prepared_data(const fs::path& path) {
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  if (!fs::exists(folder / DatasetInfo::kFileName)) return std::nullopt;
  return PreparedData{folder, read_dataset_info(folder)};
}

std::vector<fs::path> token_files(const std::string& path, TokenPart part) {
  return find_token_shards(shards_of(path, part == TokenPart::kTrain ? "train.bin" : "eval.bin"));
}

std::optional<fs::path> tokenizer_file_of(const PreparedData& data) {
  const std::string& file = data.info.tokenizer_model;
  if (file.empty()) return std::nullopt;
  return file_of_folder(
      {.folder = data.folder, .name = file, .what = "tokenizer (\"tokenizer_model\" of dataset.json)"});
}

TokenizerRecord tokenizer_of(const PreparedData& data) {
  return read_tokenizer_record(data.info.tokenizer, tokenizer_file_of(data).value_or(fs::path()),
                               data.info.vocab_size);
}

std::int64_t vocab_of_data(const DataSection& data) {
  TRIREME_CHECK(
      has_token_files(data.kind),
      "model.vocab is not known: data of this data.kind has no tokenizer; give model.vocab or model.size");
  TRIREME_CHECK(!data.train.empty(),
                "data.train is missing: name a folder that `trireme data` wrote, or token shards");
  if (const auto prepared = find_prepared_data(data.train)) return prepared->info.vocab_size;
  try {
    for (const fs::path& shard : find_token_shards(data.train)) const TokenFile opened(shard);
  } catch (const Error& error) {
    throw error.saying(fmt::format("data.train: {}", error.what()));
  }
  throw Error(ErrorCode::kInvalidInput,
              "model.vocab is not known: data.train = \"{}\" is token shards without a {}, which do not say "
              "their vocabulary; give model.vocab (50257 for GPT-2's tokens) or model.size",
              data.train, DatasetInfo::kFileName);
}

const DataModule kTokenData{.kind = DataKind::kTokens,
                            .source = "the folder of token shards that `trireme data text` wrote",
                            .throughput_unit = "tokens",
                            .sample_spec = token_sample_spec,
                            .describe_sample = describe_tokens,
                            .open = open_token_data,
                            .open_eval = open_token_eval_data};

const DataModule kDecoderData{.kind = DataKind::kTokens,
                              .source = kTokenData.source,
                              .throughput_unit = "tokens",
                              .other_kind = DataKind::kChat,
                              .sample_spec = token_sample_spec,
                              .describe_sample = describe_tokens,
                              .open = open_token_data,
                              .open_eval = open_token_eval_data};

const DataModule kMaskedTokenData{
    .kind = DataKind::kTokens,
    .source = kTokenData.source,
    .throughput_unit = "tokens",
    .masks_tokens = true,
    .other_kind = DataKind::kDocuments,
    .sample_spec = masked_sample_spec,
    .describe_sample = describe_tokens,
    .open = [](const JobConfig& config,
               bool read_whole) { return masked(config, open_token_data(config, read_whole)); },
    .open_eval = [](const JobConfig& config,
                    bool read_whole) { return masked(config, open_token_eval_data(config, read_whole)); }};

}  // namespace trireme
