#include "runtime/data/dataset_info.h"

#include <nlohmann/json.hpp>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

constexpr const char* kFormat = "trireme-tokens";
constexpr int kVersion = 1;

DatasetInfo to_info(const nlohmann::json& json) {
  TRIREME_CHECK(json.at("format") == kFormat, "its format is {} instead of \"{}\"", json.at("format").dump(),
                kFormat);
  TRIREME_CHECK(json.at("version") == kVersion, "it has version {}, this build reads version {}",
                json.at("version").dump(), kVersion);
  const auto& sources = json.at("sources");
  for (const char* count : {"vocab_size", "train_tokens", "eval_tokens"}) {
    const auto value = read_integer<std::int64_t>(json, count);
    TRIREME_CHECK(value >= 0, "its {} is {}", count, value);
  }
  DatasetInfo info{.tokenizer = json.at("tokenizer").get<std::string>(),
                   .tokenizer_model = json.at("tokenizer_model").get<std::string>(),
                   .vocab_size = read_integer<std::int64_t>(json, "vocab_size"),
                   .train_tokens = read_integer<std::int64_t>(json, "train_tokens"),
                   .eval_tokens = read_integer<std::int64_t>(json, "eval_tokens"),
                   .source_files = read_integer<std::int64_t>(sources, "files"),
                   .source_bytes = read_integer<std::int64_t>(sources, "bytes"),
                   .skipped_binary_files = read_integer<std::int64_t>(sources, "skipped_binary_files")};
  if (!json.contains("documents")) return info;
  const auto& documents = json.at("documents");
  info.train_documents = read_integer<std::int64_t>(documents, "train");
  info.eval_documents = read_integer<std::int64_t>(documents, "eval");
  TRIREME_CHECK(info.train_documents > 0 && info.eval_documents >= 0,
                "it has {} training and {} evaluation documents", info.train_documents, info.eval_documents);
  info.classes = documents.at("classes").get<std::vector<std::string>>();
  return info;
}

}  // namespace

DatasetInfo read_dataset_info(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / DatasetInfo::kFileName;
  check_is_within({.folder = folder, .name = DatasetInfo::kFileName, .what = "data set description"});
  const nlohmann::json json = read_json_file(path, "data set description");
  try {
    return to_info(json);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalidInput, "data set description {} is damaged: {:.300}", path.string(),
                error.what());
  }
}

void write_dataset_info(const DatasetInfo& info, const std::filesystem::path& folder) {
  nlohmann::ordered_json json = {{"format", kFormat},
                                 {"version", kVersion},
                                 {"tokenizer", info.tokenizer},
                                 {"tokenizer_model", info.tokenizer_model},
                                 {"vocab_size", info.vocab_size},
                                 {"train_tokens", info.train_tokens},
                                 {"eval_tokens", info.eval_tokens},
                                 {"sources",
                                  {{"files", info.source_files},
                                   {"bytes", info.source_bytes},
                                   {"skipped_binary_files", info.skipped_binary_files}}}};
  if (info.train_documents > 0) {
    json["documents"] = {
        {"train", info.train_documents}, {"eval", info.eval_documents}, {"classes", info.classes}};
  }
  write_text_file(folder / DatasetInfo::kFileName, json.dump(2) + "\n");
}

}  // namespace trireme
