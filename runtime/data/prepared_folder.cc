#include "runtime/data/prepared_folder.h"

#include <cmath>
#include <system_error>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/private_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char *kTrain = "train.bin", *kEval = "eval.bin";
const std::string_view kModelNames[] = {tokenizer_file(kSentencePieceTokenizer),
                                        tokenizer_file(kBpeTokenizer)};

void remove_if_there(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error)
    throw Error(ErrorCode::kRuntime, "cannot remove earlier result {}: {}", path.string(), error.message());
}

}  // namespace

PreparedFolder::PreparedFolder(const fs::path& folder, const TokenLayout& layout)
    : folder_(folder), layout_(layout) {
  std::error_code error;
  TRIREME_CHECK(!fs::exists(folder, error) || fs::is_directory(folder, error),
                "output {} exists and is not a folder", folder.string());
  check_folder_to_write(folder);
  made_ = fs::create_directories(folder, error);
  TRIREME_CHECK(!error, "cannot make output folder {}: {}", folder.string(), error.message());
  train_.emplace(folder / kTrain, layout);
}

PreparedFolder::~PreparedFolder() {
  train_.reset();  // temporary files first
  eval_.reset();
  train_marks_.reset();
  eval_marks_.reset();
  model_.reset();
  std::error_code ignored;  // fails, as it should, if another process has added a file
  if (made_) fs::remove(folder_, ignored);
}

TokenFileWriter& PreparedFolder::eval() {
  if (!eval_) eval_.emplace(folder_ / kEval, layout_);
  return *eval_;
}

TokenFileWriter& PreparedFolder::train_marks() {
  if (!train_marks_) train_marks_.emplace(marks_of(folder_ / kTrain), TokenLayout::of_vocab(2));
  return *train_marks_;
}

TokenFileWriter& PreparedFolder::eval_marks() {
  if (!eval_marks_) eval_marks_.emplace(marks_of(folder_ / kEval), TokenLayout::of_vocab(2));
  return *eval_marks_;
}

void PreparedFolder::save_model(const Tokenizer& tokenizer) {
  model_name_ = tokenizer_file(tokenizer.kind());
  if (model_name_.empty()) return;
  const std::string text = tokenizer.model_text();
  model_.emplace(folder_ / model_name_).writer().append(std::as_bytes(std::span(text)));
}

void PreparedFolder::set_documents(std::vector<Document> train, std::vector<Document> eval) {
  train_documents_ = std::move(train);
  eval_documents_ = std::move(eval);
}

void PreparedFolder::commit(const DatasetInfo& info) {
  made_ = false;
  // The description is removed first and written last, so that a mixture of files never has one.
  remove_if_there(folder_ / DatasetInfo::kFileName);
  for (const char* name : {kTrain, kEval}) {
    remove_if_there(documents_of(folder_ / name));
    remove_if_there(marks_of(folder_ / name));
  }
  if (!eval_) remove_if_there(folder_ / kEval);
  for (const std::string_view name : kModelNames) {
    if (name != model_name_) remove_if_there(folder_ / name);
  }
  train_->commit();
  if (eval_) eval_->commit();
  if (train_marks_) train_marks_->commit();
  if (eval_marks_) eval_marks_->commit();
  if (!train_documents_.empty()) write_documents(folder_ / kTrain, train_documents_);
  if (!eval_documents_.empty()) write_documents(folder_ / kEval, eval_documents_);
  if (model_) model_->commit();
  write_dataset_info(info, folder_);
}

bool is_for_evaluation(std::size_t index, double fraction) {
  const auto i = static_cast<double>(index);
  return std::floor((i + 1) * fraction) > std::floor(i * fraction);
}

// An input named train.bin must not be overwritten.
void check_not_overwritten(const fs::path& source, const fs::path& output) {
  for (const fs::path& name : {fs::path(kTrain), fs::path(kEval), documents_of(kTrain), documents_of(kEval),
                               marks_of(kTrain), marks_of(kEval), fs::path(kModelNames[0]),
                               fs::path(kModelNames[1]), fs::path(DatasetInfo::kFileName)}) {
    std::error_code error;
    TRIREME_CHECK(!fs::equivalent(source, output / name, error) || error,
                  "input {} would be overwritten by the result {}: choose another output folder",
                  source.string(), (output / name).string());
  }
}

}  // namespace trireme
