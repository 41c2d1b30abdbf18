// A folder of prepared tokens as it is being written: nothing half-written stays behind a failure, and
// results of an earlier run are replaced.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/atomic_file.h"
#include "runtime/data/dataset_info.h"
#include "runtime/data/document_file.h"
#include "runtime/data/token_file.h"
#include "runtime/data/tokenizer.h"

namespace trireme {

class PreparedFolder {
 public:
  /// Makes the folder where it is missing. Throws Error(kInvalidInput) where it cannot.
  PreparedFolder(const std::filesystem::path& folder, const TokenLayout& layout);
  PreparedFolder(const PreparedFolder&) = delete;
  PreparedFolder& operator=(const PreparedFolder&) = delete;
  /// Removes a folder that it has made and that nothing was committed to.
  ~PreparedFolder();

  TokenFileWriter& train() { return *train_; }
  /// There is no eval.bin unless this is called.
  TokenFileWriter& eval();
  std::int64_t num_eval_tokens() const { return eval_ ? eval_->num_tokens() : 0; }
  /// The name of the tokenizer's file; empty where it needs none.
  std::string_view model_name() const { return model_name_; }
  void save_model(const Tokenizer& tokenizer);
  /// Of texts of their own, in the order of their tokens; none: the tokens are a stream.
  void set_documents(std::vector<Document> train, std::vector<Document> eval);
  void commit(const DatasetInfo& info);

 private:
  std::filesystem::path folder_;
  const TokenLayout& layout_;
  bool made_ = false;
  std::optional<TokenFileWriter> train_, eval_;
  std::optional<AtomicFile> model_;
  std::string_view model_name_;
  std::vector<Document> train_documents_, eval_documents_;
};

/// Throws Error(kInvalidInput) where `source` is a file that results in `output` would replace.
void check_not_overwritten(const std::filesystem::path& source, const std::filesystem::path& output);

}  // namespace trireme
